"""Imported by tests/mutation/mutate: which small changes of a C++ source are possible, and where.

It knows tokens, not the language; .clang-format does the rest: a comparison and an arithmetic operator have white space on
both sides, the < of a template, the * of a pointer and the - of a negative number do not.
"""
import collections
import itertools
import re

# `before` is at `offset` of the file, on line `line`; each of `after` can replace it.
Place = collections.namedtuple("Place", "kind offset line before after")

TOKEN = re.compile(r"""
    (?P<skipped>  ^[ \t]*\#(?:\\\n|[^\n])* | //[^\n]* | /\*.*?\*/ | \s+ )
  | (?P<text>     (?:u8|[uUL])?R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)" | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | (?:u8|[uUL])?'(?:\\.|[^'\\\n])+' )
  | (?P<number>   \.?\d(?:[eEpP][+-]|'[0-9a-fA-F]|[\w.])* )
  | (?P<word>     [A-Za-z_]\w* )
  | (?P<sign>     <=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|. )
""", re.VERBOSE | re.MULTILINE | re.DOTALL)

OTHERS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",), "&": ("|",), "|": ("&",),
    "^": ("&",), "<<": (">>",), ">>": ("<<",), "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",),
}
STEPS = {"++": "--", "--": "++"}
WHOLE = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)([uUlLzZ]*)")
FRACTION = re.compile(r"(\d*\.?\d*(?:[eE][+-]?\d+)?)([fFlL]?)")
NOTHING = {"std::nullopt", "nullptr", "0", "false", "cudaSuccess", "{}"}  # returning these is the same as returning {}
# A statement that is an expression begins with a name, followed by a call, an assignment or an increment. Two names
# side by side are a declaration.
STATEMENT = re.compile(r"throw\b|(?:\+\+|--)\*?\w|\*?[\w:]+(?:(?:\.|->|::)\w+|\[[^\[\]]*\]|\([^()]*\))*(?:\(|\+\+|--|\s*(?:[-+*/%&|^]|<<|>>)?=[^=])")
# Calls that order the work of streams and threads or wait for it, by the name of what is called, and those that are
# called so and do something else, by the object. The value of the last one is nothing where nothing is to be waited for.
ORDERING = {"block", "enter", "hold", "join", "lend_to_current", "notify_all", "record", "record_stream", "wait", "wait_for", "wait_for_sums", "mark"}
OTHER_OBJECTS = {"graph_", "thread", "watchdog"}
NO_EXPRESSION = {"return", "using", "if", "for", "while", "switch", "do", "else", "break", "continue", "case", "default", "goto", "co_return", "new",
                 "static_assert", "sizeof", "decltype", "alignas", "operator", "template", "public", "private", "protected"}


class Token:
    def __init__(self, match, line):
        self.kind, self.text, self.start, self.end, self.line = match.lastgroup, match[0], match.start(), match.end(), line


def tokens(source):
    """What the compiler sees, without comments, directives and static assertions."""
    line, kept = 1, []
    for match in TOKEN.finditer(source):
        token = Token(match, line)
        line += token.text.count("\n")
        if token.kind != "skipped":
            kept.append(token)
    return list(without_assertions(kept))


def without_assertions(found):
    rest = iter(found)
    for token in rest:
        if token.text != "static_assert":
            yield token
            continue
        for of_assertion in rest:
            if of_assertion.text == ";":
                break


def other_number(text):
    """Other values for a constant: one more and one less, or the double of a fraction."""
    if whole := WHOLE.fullmatch(text):
        value = int(whole[1].replace("'", ""), 8 if re.fullmatch(r"0[0-7']+", whole[1]) else 0)
        return tuple(f"{other}{whole[2]}" for other in (value + 1, value - 1) if other >= 0)
    if (fraction := FRACTION.fullmatch(text)) and re.search(r"\d", fraction[1]):
        return (f"(2 * {text})",) if float(fraction[1]) else ("1.0" + fraction[2],)
    return ()


def spaced(source, token):
    return source[token.start - 1].isspace() and source[token.end].isspace()


def of_token(source, before, token, after):
    """The changes of this one token: (kind, other texts)."""
    if token.kind == "number":
        return "constant", other_number(token.text)
    if token.text in ("true", "false"):
        return "constant", ("false" if token.text == "true" else "true",)
    if token.text == "!" and token.kind == "sign":
        return "operator", ("",)
    if token.text in STEPS:
        return "operator", (STEPS[token.text],)
    beside_text = "text" in (before.kind, after.kind)  # part of a message for people
    if token.kind == "sign" and token.text in OTHERS and spaced(source, token) and not beside_text:
        return "operator", OTHERS[token.text]
    return "", ()


def statement_end(found, first):
    """Where the statement that begins here ends: the index of its `;`; None if it is not a statement or has a body."""
    depth = 0
    for i in range(first, len(found)):
        text = found[i].text
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text, 0)
        if depth < 0:
            return None
        if text == ";":
            return i if depth == 0 else None
    return None


def begins_statement(found, i):
    """Whether this follows `;`, `{`, `}`, `else` or the closing parenthesis of an `if`, `for` or `while`."""
    if i == 0 or found[i - 1].text in (";", "{", "}", "else"):
        return True
    if found[i - 1].text != ")":
        return False
    depth = 0
    for j in range(i - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(found[j].text, 0)
        if depth == 0:
            return found[j - 1].text in ("if", "for", "while") or (found[j - 1].text == "constexpr" and found[j - 2].text == "if")
    return False


def of_statement(source, found, i):
    """The changes of the statement that begins at this token: (kind, its end, other texts)."""
    first = found[i]
    if not begins_statement(found, i) or (end := statement_end(found, i)) is None:
        return "", None, ()
    text = source[first.start:found[end].end]
    if first.text == "return":
        result = text[len("return"):-1].strip()
        return ("result", end, ("return {};",)) if result and result not in NOTHING and result[0] != "{" else ("", None, ())
    # What check() requires always holds; what can be wrong has its own error.
    if first.text in NO_EXPRESSION or first.text == "check" or not STATEMENT.match(text):
        return "", None, ()
    return "statement", end, ("{}",)


def places(source):
    """All places of a source where it can be changed, in their order."""
    found, result = tokens(source), []
    for i in range(1, len(found) - 1):
        token = found[i]
        kind, others = of_token(source, found[i - 1], token, found[i + 1])
        if others:
            result.append(Place(kind, token.start, token.line, token.text, others))
        kind, end, others = of_statement(source, found, i)
        if others:
            result.append(Place(kind, token.start, token.line, source[token.start:found[end].end], others))
    return result


def begin_of_call(found, i):
    """The first token of the expression that calls the function named at `i`: its object, if it has one."""
    while i > 1 and found[i - 1].text in (".", "->") and found[i - 2].kind == "word":
        i -= 2
    return i


def end_of_call(found, i):
    """The closing parenthesis of the call whose function is named at `i`."""
    depth = 0
    for j in range(i + 1, len(found)):
        depth += {"(": 1, ")": -1}.get(found[j].text, 0)
        if depth == 0:
            return j
    raise ValueError(f"line {found[i].line}: a call has no end")


def synchronisations(source):
    """The statements that call one of ORDERING, and the marks that others get, in their order."""
    found, result = tokens(source), []
    for i in range(1, len(found) - 1):
        if found[i].text not in ORDERING or found[i + 1].text != "(":
            continue
        first, last = begin_of_call(found, i), end_of_call(found, i)
        if first < i and found[i - 2].text in OTHER_OBJECTS:
            continue
        if begins_statement(found, first) and found[last + 1].text == ";":
            last += 1
        elif first == i or found[i].text != "mark":
            continue
        result.append(Place("synchronisation", found[first].start, found[i].line, source[found[first].start:found[last].end], ("{}",)))
    return result


def all_synchronisations(sources):
    """These changes of {path: text}."""
    return [{"file": path, "line": place.line, "kind": place.kind, "offset": place.offset, "before": place.before, "after": place.after[0]}
            for path, source in sorted(sources.items()) for place in synchronisations(source)]


def draw(sources, count, random):
    """`count` changes of {path: text}, each at another place; where several kinds are possible, one of them."""
    all_places = [(path, place) for path, source in sorted(sources.items()) for place in places(source)]
    return [{"file": path, "line": place.line, "kind": place.kind, "offset": place.offset, "before": place.before,
             "after": random.choice(place.after)} for path, place in random.sample(all_places, min(count, len(all_places)))]


def applied(source, change):
    """The source with this change in it."""
    at, before = change["offset"], change["before"]
    if source[at:at + len(before)] != before:
        raise ValueError(f"{change['file']}:{change['line']}: '{before}' is not there any more")
    return source[:at] + change["after"] + source[at + len(before):]


def in_words(change):
    """One line of the change for people."""
    before, after = (" ".join(text.split()) for text in (change["before"], change["after"]))
    told = f"without {before}" if change["kind"] in ("statement", "synchronisation") else f"{before} becomes {after or 'nothing'}"
    return f"{change['file']}:{change['line']}: {told}"


def tally(kinds):
    """{kind: how many}"""
    return {kind: len(list(same)) for kind, same in itertools.groupby(sorted(kinds))}
