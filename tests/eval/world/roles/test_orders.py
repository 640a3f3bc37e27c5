"""How an author understands guidance and memo: what they say counts, not that they are there."""

import pytest

from eval.world.roles.evolving import GUIDANCE_A, GUIDANCE_B, MEMOS
from eval.world.roles.orders import value_demand


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("", 0),
        ("Vary who asks. Keep the tone friendly.", 0),
        ("Let each criterion state that the value is so.", 0.5),
        ("Demand the exact value.", 0.5),
        ("DEMAND VALUES", 0.5),
        ("Do not ask for values.", 0),
        ("Never demand the exact value; be kind.", 0),
        ("Write criteria without values. Demand the value.", 0.5),
        ("Never write what a mention meets.", 0),
        ("Never write what a mention meets. Demand the exact value.", 1),
        ("Do not write 'mentions x'; write 'states that x is' instead.", 1),
        ("Demand the exact value.\n- Avoid topics", 1),
        ("Mention the topic. Demand the exact value.", 0.5),
        ("Evaluate the devalued.", 0),
    ],
)
def test_what_a_text_demands(text: str, demand: float) -> None:
    assert value_demand(text) == demand


def test_what_the_optimizers_write_is_understood_as_meant() -> None:
    assert {demand: value_demand(text) for demand, text in GUIDANCE_B.items()} == {0.5: 0.5, 1.0: 1.0}
    assert [value_demand(memo) for memo in MEMOS] == [0.5, 1.0, 1.0]
    assert value_demand(GUIDANCE_A) == 0
