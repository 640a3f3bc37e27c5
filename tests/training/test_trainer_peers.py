"""What ranks tell each other. Two ranks that really differ are in test_trainer_runs.py."""

import pickle

import pytest

from rri.errors import RriError, ServiceRefused, ServiceUnavailable
from training.peers import Peers


def test_one_rank_has_nobody_to_ask() -> None:
    peers = Peers(1.0)
    assert peers.all("found") == ["found"]
    peers.fail_together(None)
    with pytest.raises(ServiceUnavailable, match="away"):
        peers.fail_together(ServiceUnavailable("away"))


@pytest.mark.parametrize("error", [ServiceUnavailable("away", "Wait"), ServiceRefused("wrong"), RriError("a", "b")])
def test_an_error_means_the_same_on_another_rank(error: RriError) -> None:
    told = pickle.loads(pickle.dumps(error))
    assert type(told) is type(error) and (told.what, told.fix, str(told)) == (error.what, error.fix, str(error))
