"""The command that puts every other measure beside MAUVE."""

import json

COMMAND = "baselines human.jsonl near.jsonl far.jsonl -e letters:letters --repeats 2"


def test_measures_side_by_side(mallow):
    code, out, err = mallow(COMMAND)
    assert code == 0
    assert "mallow: caveat: far: 4 characters are common on one side only" in err
    lines = {line[:17].strip(): line.split() for line in out.splitlines()}
    assert lines["self-BLEU(4)"][-2].endswith("*")
    assert lines["MAUVE* KL"][-2].endswith("*")
    assert "* closest to the reference" in out
    assert json.loads(mallow(f"{COMMAND} --format json -q")[1])["kind"] == "mallow baselines"
    assert "| MAUVE* KL |" in mallow(f"{COMMAND} --format markdown -q")[1]
    assert r"\toprule" in mallow(f"{COMMAND} --format latex -q")[1]


def test_tokens_may_be_words_and_punctuation(mallow):
    values = [
        json.loads(mallow(f"{COMMAND} --format json -q --tokenize {choice}")[1])["values"]["far"]["self-BLEU(4)"]
        for choice in ("whitespace", "regex")
    ]
    assert values[0] != values[1]
