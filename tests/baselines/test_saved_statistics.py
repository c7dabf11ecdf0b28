"""Statistics by name: saved, found again, and as other tools write them."""

from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from mallow.baselines import Moments, find_statistics, frechet_distance, load_statistics, save_statistics, table
from mallow.errors import EstimateWarning, InputError


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 5)), {"near": rng.normal(size=(60, 5)), "far": rng.normal(1, 1, size=(60, 5))}


def test_a_name_replaces_the_samples(points, tmp_path):
    reference, systems = points
    path = save_statistics(Moments.of(reference), "set-1.0")
    assert path == find_statistics("set-1.0") == tmp_path / "data" / "statistics" / "set-1.0.npz"
    saved = load_statistics("set-1.0")
    assert saved.n == 80
    with pytest.warns(EstimateWarning, match=r"do not tell which network made them"):
        result = table(saved, systems)
    assert [row.name for row in result.rows] == ["Fréchet distance", "FD∞"]
    for name, y in systems.items():
        assert result.values[name]["Fréchet distance"] == approx(frechet_distance(reference, y), rel=1e-9)
    assert result.closest("FD∞") == ("near",)
    assert result.n == {"": 80, "near": 60, "far": 60}


def test_files_of_published_tools(points, tmp_path):
    """pytorch-fid and clean-fid write mu and sigma, and nothing else."""
    reference, systems = points
    path = tmp_path / "cifar10.train.npz"
    np.savez(path, mu=reference.mean(axis=0), sigma=np.cov(reference, rowvar=False))
    saved = load_statistics(str(path))
    assert frechet_distance(saved, systems["far"]) == approx(frechet_distance(reference, systems["far"]), rel=1e-9)
    assert saved.embedder is None
    with np.load(save_statistics(Moments.of(reference), str(tmp_path / "ours.npz"))) as ours, np.load(path) as theirs:
        assert ours["mu"] == approx(theirs["mu"])
        assert ours["sigma"] == approx(theirs["sigma"])


def test_embedders_are_not_mixed(points):
    reference, systems = points

    def own(samples):
        return np.asarray(samples)

    moments = replace(Moments.of(reference), embedder="another")
    save_statistics(moments, "named")
    with pytest.raises(InputError, match=r"the reference by another; near by .*own"):
        table(load_statistics("named"), {"near": list(systems["near"])}, embedder=own)
    same = replace(moments, embedder=own.__qualname__)
    assert table(same, {"near": list(systems["near"])}, embedder=own).caveats == ()


def test_what_is_not_there(points, tmp_path):
    save_statistics(Moments.of(points[0]), "digits")
    with pytest.raises(
        InputError, match=r"there are no statistics 'digit'; those that are saved: digits. Did you mean digits"
    ):
        load_statistics("digit")
    assert find_statistics("../data/statistics/digits") is None
    np.savez(tmp_path / "features.npz", features=points[0])
    assert find_statistics(str(tmp_path / "features.npz")) is None
    (tmp_path / "torn.npz").write_bytes(b"PK")
    assert find_statistics(str(tmp_path / "torn.npz")) is None
    np.savez(tmp_path / "wrong.npz", mu=np.zeros(3), sigma=np.array("text"))
    with pytest.raises(InputError, match=r"wrong.npz: must be a .npz file with the arrays mu and sigma"):
        load_statistics(str(tmp_path / "wrong.npz"))


def test_names_stay_in_the_folder(points):
    moments = Moments.of(points[0])
    with pytest.raises(InputError, match=r"must go to a file that ends in .npz, or have a plain name; got '../up'"):
        save_statistics(moments, "../up")
    with pytest.raises(InputError, match=r"must consist of letters, digits, dots and hyphens; got '.hidden'"):
        save_statistics(moments, ".hidden")
    with pytest.raises(
        InputError, match=r"far: `reference` and `model` must have features of the same width; got 5 and 2"
    ):
        table(replace(moments, embedder="x"), {"far": np.zeros((4, 2))})


def test_damaged_statistics_are_refused(points, tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, mu=np.zeros(3), sigma=np.eye(3))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            moments = load_statistics(str(path))
        except InputError:
            continue
        assert (moments.mean.tolist(), moments.covariance.tolist()) == ([0.0] * 3, np.eye(3).tolist())


def test_statistics_do_not_expand_without_bounds(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", mu=np.zeros(3000), sigma=np.zeros((3000, 3000)))
    with pytest.raises(InputError, match="expands to more than 100 times its size, 72 MB or more"):
        load_statistics(str(tmp_path / "a.npz"))
