"""What evolved guidance and the exploit memo may say (METHOD 3, hard limits). Pure functions.

Every check returns the problems it found as sentences that can be given back to the model that wrote the text. An
empty list means valid. The checks read English wordings and know the senses that a phrase has in a domain (blood
count, market share, point of care). They stop what a text says outright and leave the rest to measurement: a memo that
makes rubrics easier in other words shows it in its score (METHOD 7).
"""

import re
import unicodedata
from dataclasses import dataclass

from pydantic import Field

from rri.types import Frozen

__all__ = ["GuidanceLimits", "check_guidance", "check_memo"]


class GuidanceLimits(Frozen):
    """Lengths of evolved texts: what the prompts ask for, and of the memo what is still taken (METHOD 3 and 7)."""

    guidance_words: int = Field(default=300, ge=1, description="longest guidance block, in words")
    memo_chars: int = Field(default=2400, ge=1, description="longest memo that is taken, in characters")
    memo_asked_chars: int = Field(default=1500, ge=1, description="longest memo that is asked for, in characters")
    summary_chars: int = Field(default=200, ge=1, description="longest summary of a memo, in characters")


# Patterns are made from lists of plain words, so that a list can be read and extended.

_NUMBER = r"(?!1\b)\d{1,3}(?:\.\d+)?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a dozen"
_SIGNS = {r"\*": r"\w*", "_": " ", r"\#": rf"(?:{_NUMBER}|1|one|a)", "@": rf"(?:{_NUMBER})"}


def _words(phrases: str) -> str:
    """One of `phrases`: `_` is a space, `*` any ending, `#` a number, `@` a number above one."""
    found = re.escape(phrases).replace(r"\ ", " ").split()
    for sign, meaning in _SIGNS.items():
        found = [phrase.replace(sign, meaning) for phrase in found]
    return rf"(?<![\w-])(?:{'|'.join(found)})(?!\w)"


def _then(*lists: str, gap: int = 2, between: str = "") -> str:
    """One of each list in this order, at most `gap` words apart, those of `between` alone where it is given."""
    word = f"{_words(between)},?" if between else r"[\w',]+"
    return rf" (?:{word} ){{0,{gap}}}?".join(map(_words, lists))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Wordings that a text must not hold.

    `deniable`: an order against the thing ("never give partial credit") is no breach. `topic`: the thing is a noun, so
    a denial reaches it over "and", where a verb would start an order of its own.
    """

    problem: str
    wordings: tuple[str, ...]
    deniable: bool = True
    topic: bool = False

    def breach(self, sentence: str) -> bool:
        found = (m for wording in self.wordings for m in re.finditer(wording, sentence))
        return any(not (self.deniable and _denied(sentence, match.start(), self.topic)) for match in found)


_GRADING = "criteria criterion rubric* grading grader* scoring judge judges judging marking"
_CRITERIA = "criteria criterion"
_SIGNED = "positives negatives criteria criterion"
_MILDER = (
    "lenient leniently laxer lax looser softer milder forgiving permissive generous easier simpler less_strict"
    " less_demanding less_harsh less_rigid less_stringent less_severe less_specific more_transparent more_achievable"
    " more_tolerant"
)
_IN_PART = "partial partially partly half incomplete incompletely nearly approximate approximately vague vaguely"
_STATED = "answer* value* statement* match* figure* number* fact* wording* mention* criteria criterion correct right"

_SHARED = (
    _Rule(
        "suggests milder grading",
        (
            _then("relax* loosen* soften* weaken* lighten* ease eases easing", _GRADING, gap=3),
            _then("grade judge score mark assess", "leniently generously loosely charitably liberally", gap=3),
            _then("grade judge score mark assess", "less more_* not_so", "strictly harshly severely", gap=2),
            _then(_MILDER, _GRADING, gap=3),
            _then(_GRADING, _MILDER, gap=4),
            _then("easier", "for", "honest good", gap=1),
            _words(
                "lower_the_bar lower_standard* lower_the_standard* benefit_of_the_doubt be_lenient being_lenient"
                " do_not_penali* don't_penali* never_penali* stop_penali*"
            ),
        ),
    ),
    _Rule(
        "suggests credit for a part",
        (
            _then("half partial part some proportional fractional bonus extra reduced", "credit marks", gap=0),
            _words("partially_met partly_met half_met mostly_met partially_satisfied partly_satisfied"),
            _then("reward* credit* count* score scores pay* accept* tolerat*", _IN_PART, _STATED, gap=2),
            _then(_IN_PART, "correct right met", "earn* count* pass* deserve*", gap=3),
            _then("credit", "for", "part* effort attempt* trying naming mention* touch* close* nearly any", gap=1),
        ),
    ),
)

_NEGATIVES = (
    "negative_criteria negative_criterion negative_item* negative_one negative_ones negatives negatively_scored"
    " penalty_criteri* penalizing_criteri* penalising_criteri* penalty_for penalties_for criteria_for_errors"
    " criteria_for_mistakes criteria_about_errors criteria_with_negative criteria_that_penali* criteria_that_punish*"
)
_SHAPED = r"(?! (?:that|which|whose|as|phrased|worded|written|about|with|naming|describing|by|like|such|made)\b)"
# "Write no negatives" drops them, "write no negatives that name an absence" shapes them.

_MEMO = (
    _Rule(
        "suggests dropping negative criteria",
        (
            _then(
                "remov* delet* eliminat* exclud* reduc* minimi* retir* replac* drop* skip* cut cuts cutting omit*"
                " discard* abandon* scrap* strip* ban banning limit* leave_out leaving_out get_rid_of do_without"
                " take_out turn_off",
                _NEGATIVES,
                gap=3,
            ),
            _then(
                _NEGATIVES,
                "unnecessary optional not_needed superfluous too_harsh removed dropped deleted omitted",
                gap=3,
            ),
        ),
    ),
    _Rule(
        "suggests dropping negative criteria",
        (
            _then(
                "do_not don't never no no_longer stop avoid* refrain_from without",
                _NEGATIVES,
                gap=3,
                between="write writing use using add adding include including have having any the such more further a"
                " need for",
            )
            + _SHAPED,
            _words("only_positive_criteria only_positives positive_criteria_only positives_only"),
            _then("prefer* favor* favour*", "positive*", "negative*", gap=3),
        ),
        deniable=False,
    ),
    *_SHARED,
    _Rule(
        "speaks of points, which code decides",
        (
            _then("#", "point points", gap=2, between="negative positive full whole more fewer extra bonus"),
            _words("point_value* point_total* point_weight* point_range* point_budget* point_score*"),
            _then(
                "fewer more less lower higher many few full half partial extra bonus maximum minimum total negative"
                " positive low high reduced enough no zero",
                "points",
                gap=0,
            ),
            _then(
                "lower* reduc* increas* decreas* halv* doubl* giv* award* assign* deduct* subtract* earn* lose loses"
                " losing grant* adjust* chang* worth cost* carry carries gain* collect* raise_the keep set",
                "points",
            ),
            _then("points", "for per", gap=0),
            _then("weight* points", _CRITERIA, gap=3),
            _then(_CRITERIA, "weight weights", gap=0),
            _then("high low higher lower", "point", _CRITERIA, gap=0),
        ),
        deniable=False,
    ),
    _Rule(
        "speaks of how many criteria there are, which code decides",
        (
            _then(
                "@",
                _SIGNED,
                gap=3,
                between="positive negative rubric scoring grading separate distinct short specific checkable concrete"
                " factual new more additional extra such strong atomic independent different good single fact of"
                " the these",
            ),
            _then("at_least at_most up_to exactly only no_more_than minimum_of maximum_of", "#", _SIGNED, gap=2),
            _then("at_least at_most exactly only", "#", "positive negative", gap=0)
            + r"(?=\s*(?:[.,;:)]|$|per\b|in\b))",
            _then("fewer more additional extra", _SIGNED, gap=2, between="positive negative rubric such of the"),
            _then(
                "too_many too_few so_many as_many how_many how_few", _SIGNED, gap=2, between="positive negative rubric"
            ),
            _then("writ* use have keep includ* add need* requir* produc*", "many few a_few several", _SIGNED, gap=1),
            _then("number* count* amount quantity", "of", _SIGNED, gap=2, between="the all positive negative rubric"),
            _then(_CRITERIA, "count counts", gap=0),
            _then("#", "negative* positive* criteria criterion", "per for_each in_each", "task rubric", gap=1),
            _then("rubric*", "@", "items lines", gap=5),
            _then("shorter longer smaller larger bigger leaner", "rubric*", gap=0),
            _then("keep make", "rubric*", "short small long large lean brief compact", gap=1),
        ),
        deniable=False,
    ),
    _Rule(
        "speaks of shares of tasks or criteria, which code decides",
        (
            _then(
                "half third thirds quarter quarters majority percent per_cent",
                "tasks rubrics criteria rubric prompts",
                gap=3,
                between="of all the your our its generated",
            ),
            _then("most few some", "tasks rubrics", gap=3, between="of all the your our"),
            _then("one #", "in out_of", "#", "tasks rubrics criteria", gap=0),
            _then("every_second every_other every_third every_fourth", "task rubric criterion", gap=0),
            _then("share shares proportion* fraction* percentage* rate rates", "of", f"{_SIGNED} tasks rubrics", gap=2),
            _then("negative positive criteria", "share shares proportion* ratio* quota*", gap=0),
            _then("ratio*", "positive*", "negative*", gap=2),
        ),
        deniable=False,
    ),
)

_ANSWER = "answer answers response* reply replies output outputs solver* assistant*"
_WORD_LIMIT = (
    "word_limit* word_count* word_budget* under_#_words below_#_words within_#_words at_most_#_words up_to_#_words"
    " no_more_than_#_words fewer_than_#_words less_than_#_words exceed_#_words #_words_or_less #_words_or_fewer"
    " in_#_words"
)
_HEADER = "header headers heading headings section_title*"
_MAPPED = "one_to_one one_for_one 1:1 1_to_1"

_GUIDANCE = (
    *_SHARED,
    _Rule(
        "aims at the solver's reasoning, which is removed before grading",
        (
            _words("chain_of_thought* chains_of_thought scratchpad* scratch_pad* <think> <thinking>"),
            _then("reasoning thinking", "trace* channel* token* tag tags", gap=0),
            _then("hidden private internal", "reasoning thinking", gap=0),
            _then("show* reveal* expos* hid* suppress*", "its their solver's assistant's", "reasoning thinking", gap=1),
        ),
        topic=True,
    ),
    _Rule(
        "aims at the length of answers in words",
        (_words("word_cap*"), _then(_ANSWER, _WORD_LIMIT, gap=8), _then(_WORD_LIMIT, _ANSWER, gap=6)),
        topic=True,
    ),
    _Rule(
        "aims at exact headers",
        (
            _then("header heading", "echo*", gap=0),
            _then("echo echoes echoed echoing exact", _HEADER, gap=3),
            _then(_HEADER, "exactly verbatim word_for_word", gap=2),
        ),
        topic=True,
    ),
    _Rule(
        "derives criteria one to one from the request",
        (_then(_GRADING, _MAPPED, gap=8), _then(_MAPPED, _GRADING, gap=8)),
        topic=True,
    ),
    _Rule(
        "asks for a total of points",
        (
            _then("points rubric* criteria", "sum* add* total*", "to", "@", gap=2),
            _then("total* sum sums", "@", "points", gap=2),
        ),
        topic=True,
    ),
)

_DOMAIN_SENSES = re.compile(
    _words(
        "point_of point_at point_in point_out points_out point_estimate* data_point* basis_point* end_point*"
        " time_point* set_point percentage_point* decision_point* trigger_point* pressure_point* starting_point*"
        " cut_point* price_point* melting_point* boiling_point* reference_point* entry_point* access_point*"
        " turning_point* key_point* main_point* bullet_point* talking_point* discussion_point*"
        " points_of_law points_of_fact points_of_care points_of_sale points_of_contact"
        " tax_credit* trade_credit* letter_of_credit letters_of_credit line_of_credit lines_of_credit credit_risk*"
        " credit_rating* credit_card* credit_agreement* credit_line* credit_default* credit_facilit* credit_spread*"
        " credit_enhancement* credit_guarantee* credit_loss* credit_support credit_union* credit_note* credit_report*"
        " false_negative* true_negative* gram_negative* negative_covenant*"
        " eligibility_criteri* inclusion_criteri* exclusion_criteri* diagnostic_criteri* admission_criteri*"
        " discharge_criteri* selection_criteri* major_criteri* minor_criteri* clinical_criteri* listing_criteri*"
        " one_or_more over_@_criteria across_@_criteria into_@_criteria between_@_criteria among_@_criteria"
        " #_point_scale #_point_index #_point_checklist #_point_system #_point_score"
    ),
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"\b(?:{_NUMBER}|1|one) points? (?:on|in|to|under) (?:the |a )?[A-Z][\w-]*"
    r"|(?<=[a-z\d] )[A-Z][\w'-]* criteri(?:a|on)\b"
)
# "Adds 2 points on the Wells score", "two of the SIRS criteria": what an answer states, not how it is graded.

_BULLET = re.compile(r"\n\s*(?:[-*\u2022]|\d+[.)])\s+|\n\s*\n|^\s*[-*\u2022]\s+")
_SENTENCE = re.compile(r"(?<=[.;!?])\s+")
_DENIAL = re.compile(
    r"\b(?:(?:do|does|must|should|may|can)\s+not|cannot|don't|never|not|nor|avoid\w*|without|refrain\s+from|stop|forbid\w*"
    r"|reject\w*|instead\s+of|rather\s+than|no(?!\s+(?:more|less|fewer|longer)\b))\b"
)
_TURN = re.compile(
    r"[;:]|\b(?:but|instead|hesitate|forget|fail|only|just|merely|simply|then|so|because|since|if|when|unless|until)\b"
)


def _denied(sentence: str, at: int, topic: bool) -> bool:
    """Whether an order not to reaches the wording that starts at `at`.

    It does over the rest of a list that ends in "or", and ends where the sentence turns to something else.
    """
    denials = [m for m in _DENIAL.finditer(sentence) if m.end() <= at]
    if not denials:
        return False
    reach, rest = sentence[denials[-1].end() : at], sentence[denials[-1].end() :]
    if _TURN.search(reach) or (re.search(r"\band\b", reach) and not topic):
        return False
    return "," not in reach or bool(re.search(r"\b(?:or|nor)\b", rest))


def _sentences(text: str) -> list[str]:
    """The sentences and list items of a text, in one line each, without markup."""
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    plain = "".join(c for c in plain if c.isspace() or unicodedata.category(c) not in ("Cf", "Cc"))
    items = _BULLET.split(re.sub(r"[\u2010-\u2015]", "-", plain))
    lines = (" ".join(re.sub(r"[*_`#\"]+", " ", item).split()) for item in items)
    return [sentence for line in lines for sentence in _SENTENCE.split(line) if sentence]


def _general(sentence: str) -> str:
    """A sentence as the rules read it: lower case, compounds apart, domain senses taken out."""
    apart = re.sub(r"(?<=[^\W\d])-(?=[^\W\d])|(?<=\d)-(?=[^\W\d])", " ", sentence)
    apart = re.sub(r"(?<=\d) ?- ?(?=\d)", " to ", apart).replace("%", " percent").replace(" - ", "; ")
    return " ".join(_DOMAIN_SENSES.sub("it", _NAMED.sub("it", " ".join(apart.split()))).lower().split())


def _breaches(text: str, rules: tuple[_Rule, ...]) -> list[str]:
    problems: dict[str, None] = {}
    for sentence in _sentences(text):
        general = _general(sentence)
        for rule in rules:
            if rule.breach(general):
                problems[f"{rule.problem}: {sentence[:160]!r}"] = None
    return list(problems)


def check_guidance(text: str, max_words: int = GuidanceLimits().guidance_words) -> list[str]:
    """Problems of a guidance block that keep it from being used (METHOD 3, meta-optimizer).

    Checked are its length and the hard limits that a wording gives away: milder grading, credit for a part, the
    solver's reasoning, word caps on answers, exact headers, criteria mapped one to one, a total of points. An order
    against such a thing is no breach.

    Args:
        text: the block.
        max_words: longest block, in words parted by white space.
    """
    if not text.strip():
        return ["the guidance is empty"]
    count = len(text.split())
    problems = [f"{count} words; at most {max_words} are allowed"] if count > max_words else []
    return problems + _breaches(text, _GUIDANCE)


def check_memo(text: str, max_chars: int = GuidanceLimits().memo_chars) -> list[str]:
    """Problems of a memo for which it is rejected unread (METHOD 3, memo optimizer).

    It may not suggest dropping negative criteria, milder grading or credit for a part, and may not speak of points,
    of how many criteria there are, or of shares of tasks: code decides those.

    Args:
        text: the memo, blank where nothing was proposed, which is a problem here: there is nothing to check.
        max_chars: longest memo, in characters without white space around it.
    """
    if not text.strip():
        return ["the memo is empty"]
    count = len(text.strip())
    problems = [f"{count} characters; at most {max_chars} are allowed"] if count > max_chars else []
    return problems + _breaches(text, _MEMO)
