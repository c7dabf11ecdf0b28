"""The noise of a measure: that of a mean is the textbook's, and nothing inside of it is marked."""

from mallow.baselines import Row, Table


def test_a_lead_inside_the_noise_is_not_marked():
    values = {"a": {"m": 0.10}, "b": {"m": 0.15}, "c": {"m": 0.9}}
    one = Table((Row("m", "features", 0.0),), values, {"": 9}, "e")
    assert (one.leader("m"), one.closest("m")) == (("a",), ("a",))
    near = Table(one.rows, values, one.n, "e", noise={name: {"m": (0.2, 0.04)} for name in values})
    assert (near.leader("m"), near.closest("m")) == ((), ("a",))
    clear = Table(one.rows, values, one.n, "e", noise={name: {"m": (0.2, 0.03)} for name in values})
    assert clear.leader("m") == ("a",)
    assert "0.1 ±0.2*" in str(clear)
    assert "* closest to the reference, by more than that noise" in str(clear)
    assert clear._records()[0]["half_width"] == 0.2
    assert Table.from_json(clear.to_json()) == clear
    unknown = Table(one.rows, values, one.n, "e", noise={"a": {}, "b": {}, "c": {}})
    assert unknown.leader("m") == ()
