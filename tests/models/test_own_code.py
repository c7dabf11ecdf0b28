"""Models that bring program code along: it does not run, whatever is typed and whichever version loads them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mallow.embed import LanguageModel, SentenceModel, VisionModel
from mallow.errors import InputError
from mallow.generate import CausalModel
from mallow.models import refuse_foreign_modules

REFUSED = r"^`model` must be one that its library knows; .* needs {what}, which mallow does not run\. If you trust it, load it"
HARM = "from pathlib import Path\nPath(__file__).with_name('harm').write_text('')\nPath({marker!r}).write_text('')\n"


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model whose configuration asks transformers to import `evil.py`."""
    home = tmp_path / "model"
    home.mkdir()
    places = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoTokenizer", "AutoImageProcessor")
    config = {"model_type": "evil", "auto_map": {place: f"evil.{place}" for place in places}}
    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json"):
        (home / name).write_text(json.dumps(config))
    (home / "evil.py").write_text(HARM.format(marker=str(tmp_path / "harm")))
    return home


@pytest.mark.parametrize("kind", [LanguageModel, VisionModel, CausalModel])
def test_code_beside_a_configuration_does_not_run(kind, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    model = kind(folder, device="cpu")
    with pytest.raises(InputError, match=REFUSED.format(what="the program code that it brings along")):
        model.load() if isinstance(model, CausalModel) else model._load() if kind is VisionModel else model(["a"])
    assert not (tmp_path / "harm").exists()


def test_code_of_a_tokenizer_does_not_run(gpt2, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    home = tmp_path / "model"
    shutil.copytree(gpt2, home)
    config = json.loads((home / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "EvilTokenizer", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}}
    (home / "tokenizer_config.json").write_text(json.dumps(config))
    (home / "evil.py").write_text(HARM.format(marker=str(tmp_path / "harm")))
    try:
        LanguageModel(home, device="cpu")(["a"])
    except InputError as error:
        assert "which mallow does not run" in str(error)  # noqa: PT017
    assert not (tmp_path / "harm").exists()


def test_nothing_is_asked_on_standard_input(folder, tmp_path):
    (tmp_path / "texts.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    command = [sys.executable, "-m", "mallow", "embed", "texts.jsonl", "-e", "model", "-o", "out.npz"]
    run = subprocess.run(command, cwd=tmp_path, input="y\ny\ny\n", capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "model needs the program code that it brings along, which mallow does not run." in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
@pytest.mark.parametrize("value", ["someone/kernel", {"": "someone/kernel"}])
def test_compiled_code_from_the_hub_is_not_fetched(gpt2, tmp_path, name, value):
    home = tmp_path / "model"
    shutil.copytree(gpt2, home)
    config = json.loads((home / "config.json").read_text()) | {name: value}
    (home / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=REFUSED.format(what="the compiled code .*someone/kernel.* from the hub")):
        LanguageModel(home, device="cpu")(["a"])


def sentence_model(folder: Path, modules: list[object], **functions: str) -> Path:
    folder.mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    for path, function in functions.items():
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps({"activation_function": function}))
    return folder


OWN = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}


@pytest.mark.parametrize(
    ("modules", "functions", "what"),
    [
        ([OWN, {"path": "1", "type": "evil.Evil"}], {}, r"the module 'evil\.Evil'"),
        ([OWN, {"path": "1", "type": "os.system"}], {}, r"the module 'os\.system'"),
        (
            [OWN, {"path": "dense", "type": "sentence_transformers.models.Dense"}],
            {"dense": "os.abort"},
            r"the function 'os\.abort'",
        ),
        ([OWN, {"path": "1"}], {}, "the module 'None'"),
        ([OWN, "evil.Evil"], {}, "the module ''"),
    ],
)
def test_modules_of_sentence_models_are_those_of_the_library(tmp_path, monkeypatch, modules, functions, what):
    folder = sentence_model(tmp_path / "model", modules, **functions)
    (folder / "evil.py").write_text(HARM.format(marker=str(tmp_path / "harm")))
    with pytest.raises(InputError, match=REFUSED.format(what=what)):
        SentenceModel(folder, device="cpu")(["a"])
    assert not (tmp_path / "harm").exists()


def test_the_usual_modules_pass(tmp_path):
    dense = {"path": "dense", "type": "sentence_transformers.models.Dense"}
    refuse_foreign_modules("model", sentence_model(tmp_path / "a", [OWN, dense], dense="torch.nn.Tanh"))
    refuse_foreign_modules("model", sentence_model(tmp_path / "b", {"not": "a list"}))
    refuse_foreign_modules("model", tmp_path / "nothing")
    os.truncate(tmp_path / "a" / "modules.json", 5)
    refuse_foreign_modules("model", tmp_path / "a")  # whoever loads it says that it is damaged
