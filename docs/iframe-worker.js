"use strict";

// The search of the site runs in a worker, which browsers refuse to pages that are opened from a folder. There it runs in a
// hidden frame instead. Material would load such a script from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "Search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      this.ready = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => resolve(inside);
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {}
  };
}
