// Ask the search of a built site: node tests/search_site.js SITE < questions, one per line.
// It runs the worker of the site itself and prints, for each question, the locations that it finds, as JSON.
const fs = require("fs"), path = require("path"), vm = require("vm");

const site = process.argv[2];
const workers = path.join(site, "assets/javascripts/workers");
const script = fs.readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
const answers = [];
let receive;
const scope = {
  console, URL, setTimeout, clearTimeout,
  addEventListener: (kind, handler) => { if (kind === "message") receive = handler; },
  postMessage: (message) => answers.push(message),
  importScripts: () => {},
  location: { href: "file:///site/" },
};
scope.self = scope;
vm.runInNewContext(fs.readFileSync(path.join(workers, script), "utf8"), scope);

const SETUP = 0, QUERY = 2, RESULT = 3; // messages of Material for MkDocs

async function ask(question) {
  const before = answers.length;
  await receive({ data: { type: QUERY, data: question } });
  while (!answers.slice(before).some((answer) => answer.type === RESULT)) await new Promise((go) => setTimeout(go, 5));
  const groups = answers.at(-1).data.items; // pages, best first; each with its sections, best first
  return groups.map((sections) => sections.map((section) => section.location)[0]);
}

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"));
  await receive({ data: { type: SETUP, data: { ...index, options: { suggest: false } } } });
  const questions = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
  const found = {};
  for (const question of questions) found[question] = await ask(question);
  console.log(JSON.stringify(found));
}

main().catch((error) => { console.error(error); process.exit(1); });
