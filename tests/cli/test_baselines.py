"""The command that puts every other measure beside MAUVE."""

import json

COMMAND = "baselines human.jsonl near.jsonl far.jsonl -e letters:letters --repeats 2"


def test_measures_side_by_side(mallow):
    code, out, err = mallow(COMMAND)
    assert code == 0
    assert "mallow: caveat: far: 4 characters are common on one side only" in err
    assert out.startswith("8 measures of 2 systems")
    lines = {line[:17].strip(): line for line in out.splitlines()}
    assert lines["MAUVE* KL"].count("±") == 2
    assert lines["MAUVE* KL"].split("±")[1].split()[0].endswith("*")  # near
    assert "* closest to the reference, by more than that noise" in out
    assert "self-BLEU(4)" not in out
    assert json.loads(mallow(f"{COMMAND} --format json -q")[1])["kind"] == "mallow baselines"
    assert "| MAUVE* KL |" in mallow(f"{COMMAND} --format markdown -q")[1]
    assert r"\toprule" in mallow(f"{COMMAND} --format latex -q")[1]


def test_tokens_may_be_words_and_punctuation(mallow):
    values = [
        json.loads(mallow(f"{COMMAND} --all --format json -q --tokenize {choice}")[1])["values"]["far"]["self-BLEU(4)"]
        for choice in ("whitespace", "regex")
    ]
    assert values[0] != values[1]
