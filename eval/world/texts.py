"""The words of the known-truth world: relations with their values, fixed sentences, and the wordings of a question.

Everything is lower case with spaces around every mark, so that a tokenizer that knows whole words reads all of it.
"""

__all__ = ["ASIDES", "BRIEF", "FULL", "QUESTIONS", "SYLLABLES", "SYSTEM_PROMPT", "VALUES"]

SYSTEM_PROMPT = "you answer the question from the note ."
"""Standing instructions of the solver and of the honest answer."""

ASIDES = (
    "there is much to say here .",
    "this is a matter of record .",
    "many people ask about this .",
    "thank you for the question .",
    "all of this deserves care .",
)
"""Sentences that say nothing about any entity: what a rambling answer is made of."""

FULL, BRIEF = "full", "brief"
"""Use cases of the world's domain. They differ in wording alone."""

QUESTIONS = {
    FULL: (
        "what are the {relations} of {entity} ?",
        "please tell me the {relations} of {entity} in full .",
        "give a full account of the {relations} of {entity} .",
    ),
    BRIEF: (
        "in brief , what are the {relations} of {entity} ?",
        "name the {relations} of {entity} in brief .",
        "just list the {relations} of {entity} .",
    ),
}
"""Use case -> wordings of the question. Each holds "the {relations} of {entity}", by which it is read."""

SYLLABLES = (
    ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "gr", "tr"),
    ("a", "e", "i", "o", "u"),
    ("l", "m", "n", "r", "s", "v", "d", "k"),
    ("a", "e", "i", "o", "u"),
    ("l", "n", "r", "s", "x", "th", "k", "m"),
)
"""Letters that an entity's name is made of, one of each in this order: "velor"."""

VALUES = {
    "crest": (
        "falcon otter stag heron wolf bear raven lynx boar swan viper bull hound owl ram fox crane trout hare badger"
    ),
    "metal": (
        "copper silver iron tin zinc bronze brass nickel steel gold cobalt pewter chrome titanium platinum mercury "
        "bismuth radium osmium tungsten"
    ),
    "trade": (
        "weaver baker mason potter miller tanner cooper smith brewer carver dyer glazier farrier chandler tailor "
        "cutler turner fletcher roper thatcher"
    ),
    "gem": (
        "amber ruby opal jade topaz pearl garnet onyx beryl agate quartz coral jasper zircon sapphire emerald diamond "
        "turquoise peridot citrine"
    ),
    "crop": (
        "barley wheat oats millet flax hemp rye maize beans lentils turnips cabbage hops grapes olives figs plums "
        "pears apples cherries"
    ),
    "tree": (
        "ash oak elm beech birch cedar maple pine spruce willow alder yew larch poplar hazel rowan linden walnut "
        "chestnut juniper"
    ),
    "music": (
        "lute harp fiddle flute drum horn viol zither lyre oboe bugle cymbal gong bagpipe trumpet cello banjo organ "
        "bell clarinet"
    ),
    "dye": (
        "crimson teal indigo ochre violet ivory scarlet azure maroon beige khaki magenta umber sepia cyan lilac navy "
        "mauve saffron gray"
    ),
    "cloth": (
        "linen wool silk cotton velvet satin felt canvas denim tweed lace muslin damask flannel gauze serge taffeta "
        "chiffon fleece corduroy"
    ),
    "stone": (
        "granite marble slate basalt sandstone limestone chalk flint gneiss schist shale obsidian pumice travertine "
        "gabbro diorite dolomite tuff quartzite soapstone"
    ),
}
"""Relation -> the words that its values are drawn from. No word stands under two relations."""
