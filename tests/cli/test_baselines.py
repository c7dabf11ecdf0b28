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
    short = f"{COMMAND} --limit 80 -q"
    assert json.loads(mallow(f"{short} --format json")[1])["kind"] == "mallow baselines"
    assert "| MAUVE* KL |" in mallow(f"{short} --format markdown")[1]
    assert r"\toprule" in mallow(f"{short} --format latex")[1]


def test_tokens_may_be_words_and_punctuation(mallow):
    values = [
        json.loads(mallow(f"{COMMAND} --all --limit 40 --format json -q --tokenize {choice}")[1])["values"]["far"][
            "self-BLEU(4)"
        ]
        for choice in ("whitespace", "regex")
    ]
    assert values[0] != values[1]


def test_perplexities_of_a_scorer_and_published_tokens(mallow, shared):
    tokens = shared / "data" / "gpt2-bpe"
    command = f"{COMMAND} --limit 100 --format json -q --repeats 1 --scorer ngram:2 --scorer-train near.jsonl --tokenizer {tokens}"
    values = json.loads(mallow(command)[1])["values"]
    assert values["far"]["perplexity"] > 1
    words = json.loads(mallow(f"{COMMAND} --limit 100 --format json -q")[1])["values"]
    assert values["far"]["distinct-4"] != words["far"]["distinct-4"]
    code, _, err = mallow("baselines points.npy points.npy --scorer ngram")
    assert (code, "--scorer and --tokenizer are for texts; points.npy holds features samples." in err) == (2, True)
    code, _, err = mallow(f"{COMMAND} --scorer-train near.jsonl")
    assert (code, "--scorer-train needs the model: pass its name, such as --scorer ngram." in err) == (2, True)


def test_what_models_say_about_texts(mallow):
    command = "likelihoods human.jsonl far.jsonl --model ngram:2 --train near.jsonl"
    code, out, _ = mallow(command)
    assert code == 0
    assert "sparsemax score SP" in out
    assert "Gen. PPL" not in out
    found = json.loads(mallow(f"{command} --surrogate ngram --surrogate-train human.jsonl --format json -q")[1])
    assert found["kind"] == "mallow likelihoods"
    assert set(found["generation_perplexity"]) == {"human", "generated"}
    assert 0 <= found["summaries"]["mauve"] <= 1
    code, _, err = mallow(f"{command} --decoder beam:4")
    assert (code, "--decoder must be greedy or made of rules" in err) == (1, True)


def test_statistics_replace_the_reference(mallow, tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))
    code, out, err = mallow(f"{COMMAND} --format json --save-statistics human-1")
    assert (code, "mallow: statistics written to" in err) == (0, True)
    whole = json.loads(out)["values"]
    command = "baselines human-1 near.jsonl far.jsonl -e letters:letters"
    kept = json.loads(mallow(f"{command} --format json -q")[1])
    assert [row["name"] for row in kept["rows"]] == ["Fréchet distance", "FD∞"]
    for system in ("near", "far"):
        ours, theirs = (values[system]["Fréchet distance"] for values in (kept["values"], whole))
        assert abs(ours - theirs) < 1e-6 * theirs
    code, _, err = mallow(f"{command} --save-statistics again")
    assert (code, "--save-statistics needs samples; human-1 holds statistics already." in err) == (2, True)
    code, _, err = mallow("baselines gone near.jsonl")
    assert (code, "gone: no such file" in err) == (1, True)


def test_only_inception_can_match_a_tool(mallow):
    code, _, err = mallow(f"{COMMAND} --match torch-fidelity")
    assert (code, "--match is for the FID of published tools: add --embedder inception." in err) == (2, True)
    code, _, err = mallow("baselines human.jsonl near.jsonl --embedder inception --match clean-fid")
    assert (code, "inception embeds image samples" in err) == (1, True)


def test_further_measures_are_behind_all(mallow):
    found = json.loads(mallow(f"{COMMAND} --all --limit 60 --format json -q")[1])
    names = [row["name"] for row in found["rows"]]
    assert {"FD∞", "Gaussian kernel distance", "sliced transport", "Vendi score"} <= set(names)
    ideals = {row["name"]: row["ideal"] for row in found["rows"]}
    assert ideals["Vendi score"] > 1
    assert found["values"]["far"]["sliced transport"] > found["values"]["near"]["sliced transport"]
