"""Digests of the prompts, so that a run's manifest says which ones it was made with."""

from collections.abc import Sequence

import dspy

from rri.lm.adapter import output_spec
from rri.types import digest_of

__all__ = ["prompt_digests"]


def prompt_digests(signatures: Sequence[type[dspy.Signature]]) -> dict[str, str]:
    """Signature name -> digest of its instructions, its inputs and what it must return."""
    return {
        signature.__name__: digest_of(
            [
                signature.instructions,
                {name: (field.json_schema_extra or {}).get("desc") for name, field in signature.input_fields.items()},
                output_spec(signature).full,
                list(output_spec(signature).fields),
            ]
        )
        for signature in signatures
    }
