"""The one place where evolved text joins a prompt (METHOD 7: only guidance blocks and memo ever change)."""

import dspy

__all__ = ["with_guidance"]

_TEMPLATE = """{base}

{title}
{text}"""


def with_guidance(signature: type[dspy.Signature], guidance: str = "", memo: str = "") -> type[dspy.Signature]:
    """`signature` with the guidance block and the exploit memo appended; with neither, the signature itself.

    The base prompt always comes from code, so an evolved text can add to it but never replace it.
    """
    text = signature.instructions
    for title, block in (("Guidance for this stage of training:", guidance), ("Memo on known exploits:", memo)):
        if block.strip():
            text = _TEMPLATE.format(base=text, title=title, text=block.strip())
    if text == signature.instructions:
        return signature
    guided: type[dspy.Signature] = signature.with_instructions(text)
    guided.__name__ = signature.__name__
    return guided
