"""A score of shards whose process is killed without warning, and the same call once more."""

import signal
import subprocess
import sys

from mallow import Measure, Quantize

MEASURE = Measure(Quantize(bins=10, sample=300))

SCRIPT = """
import sys, time
import mallow.engine._engine as passes
import mallow.estimate._stream as stream
from mallow import Measure, Quantize, Ray, Threads, score
x, y, kept, address, pause = sys.argv[1:]
if float(pause):
    label, cluster, clusterings = stream._label_chunk, stream.lloyd, []
    def slow_label(jobs, chunk):
        print("chunk", chunk.start, flush=True)
        time.sleep(float(pause))
        return label(jobs, chunk)
    def slow_cluster(*arguments, **options):
        clusterings.append(0)
        print("clustering", len(clusterings), flush=True)
        time.sleep(float(pause))
        return cluster(*arguments, **options)
    if not address:
        stream._label_chunk = slow_label
    stream.lloyd = slow_cluster
    passes._EVERY = -1.0
    passes._SHARE = 1.0
engine = Ray(address=address, checkpoint=kept) if address else Threads(1, checkpoint=kept)
print(score(x, y, measure=Measure(Quantize(bins=10, sample=300)), repeats=1, engine=engine).to_json())
"""


def killed_score(x, y, kept, line, address=""):
    """Kill a score (SIGKILL) when it has printed this line; what the same call then does, its errors and output."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(x), str(y), str(kept), address]
    with subprocess.Popen([*command, "0.1"], stdout=subprocess.PIPE, text=True) as killed:
        for each in killed.stdout:
            if each.strip() == line:
                killed.send_signal(signal.SIGKILL)
                break
    assert killed.wait() == -signal.SIGKILL
    return subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
