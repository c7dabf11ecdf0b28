"""`--fast`: evidence without a model, and exit code 0."""


def test_fast_prints_evidence_and_no_published_number(mallow, home):
    for name, words in (("a", "the cat sat on a mat and looked"), ("b", "the dog ran to a house and slept")):
        every = words.split()
        lines = [" ".join(every[(i * k) % 8] for k in range(1, 12)) for i in range(1, 90)]
        (home / f"{name}.txt").write_text("\n".join(f"{line} {i}" for i, line in enumerate(lines)))
    code, out, _ = mallow("score --fast a.txt b.txt")
    assert code == 0
    assert "not computed" in out
    assert "not with style: choose an embedder, such as minilm" in out
    assert "style-" in out
    assert "nan" not in out.lower()


def test_fast_has_no_embedder_beside_it(refused):
    refused("score --fast --embedder glove points.npy points.npy", 2, "leave out --embedder")
    refused("score --fast points.npy points.npy", 2, "features need no embedder")
