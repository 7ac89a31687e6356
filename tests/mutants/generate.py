"""Faults that are made up from the syntax of changed functions: one operator, constant, condition or call at a time."""

import dataclasses
import random
import re
import subprocess

# Kind of fault, pattern, and its replacement. Spaces tell an operator from a template's bracket, a pointer or a sign: clang-format sets them.
SWAPS = [
    ("boundary", r" < ", " <= "), ("boundary", r" <= ", " < "), ("boundary", r" > ", " >= "), ("boundary", r" >= ", " > "),
    ("comparison", r" == ", " != "), ("comparison", r" != ", " == "),
    ("condition", r" && ", " || "), ("condition", r" \|\| ", " && "), ("condition", r"\bif \((?!constexpr|const |auto )", "if (!"),
    ("sign", r" \+ ", " - "), ("sign", r" - ", " + "), ("sign", r" \+= ", " -= "), ("sign", r" -= ", " += "),
    ("operator", r" \* ", " + "), ("operator", r" / ", " * "), ("operator", r" % ", " / "),
    ("extreme", r"\bmin\(", "max("), ("extreme", r"\bmax\(", "min("),
    ("constant", r"\btrue\b", "false"), ("constant", r"\bfalse\b", "true"), ("constant", r"(?<![.\w])0\b(?![.'\w])", "1"),
    ("jump", r"\bcontinue;", "break;"),
]
CALL = re.compile(r"^ +(?!return|throw|delete|else|if|for|while|using|static_assert|ensure|require|check)[\w:.>\[\]-]+\(.*\);$")
LITERALS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\'|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*', re.S | re.M)
ENCLOSING = re.compile(r"^\s*(?:(?:inline|template\s*<.*?>|export)\s+)*(?:namespace|class|struct|union|enum|extern)\b", re.S)


@dataclasses.dataclass(frozen=True)
class Fault:
    line: int  # from 1
    kind: str
    before: str  # the line as it is, and as it becomes
    after: str


def without_literals(text):
    """The text with blanks for comments, strings and directives: every position stays."""
    return LITERALS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def functions(text):
    """First and last line of the body of every function; `text` has no literals."""
    found, open_blocks, begin = [], [], 0
    for place in re.finditer(r"[{};]", text):
        if place[0] == "{":
            header = text[begin:place.start()]
            kind = "scope" if ENCLOSING.match(header) else "function" if "(" in header else "other"
            open_blocks.append((place.start(), kind))
        elif place[0] == "}" and open_blocks:
            start, kind = open_blocks.pop()
            if kind == "function" and all(outer == "scope" for _, outer in open_blocks):
                found.append((text.count("\n", 0, start) + 1, text.count("\n", 0, place.start()) + 1))
        begin = place.end()
    return found


def closing(line, begin):
    """Where the bracket closes that was opened before `begin`; -1: not in this line."""
    depth = 1
    for at in range(begin, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return at
    return -1


def faults_of(source, changed):
    """The faults of all functions with one of the lines `changed`."""
    code = without_literals(source)
    lines, blank = source.split("\n"), code.split("\n")
    faults = []
    for first, last in functions(code):
        if not any(first <= line <= last for line in changed):
            continue
        for number in range(first, last + 1):
            line, bare = lines[number - 1], blank[number - 1]
            for kind, pattern, instead in SWAPS:
                for found in re.finditer(pattern, bare):
                    after = line[:found.start()] + instead + line[found.end():]
                    if kind == "condition" and instead == "if (!":
                        close = closing(bare, found.end())
                        if close < 0:
                            continue
                        after = f"{line[:found.start()]}if (!({line[found.end():close]}){line[close:]}"
                    faults.append(Fault(number, kind, line, after))
            if CALL.match(bare.rstrip()) and bare.count("(") == bare.count(")"):
                faults.append(Fault(number, "missing call", line, ""))
    return faults


def changed_lines(root, revision):
    """{file: the lines of it that changed since the revision}, of sources of the product."""
    text = subprocess.run(["git", "diff", "-U0", "--no-color", revision, "--", "*.cpp", "*.h", ":!tests", ":!bench", ":!core/cuda"],
                          cwd=root, check=True, capture_output=True, text=True).stdout
    changed, file = {}, None
    for line in text.splitlines():
        if line.startswith("+++ "):
            file = line[6:] if line.startswith("+++ b/") else None
        elif file and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            changed.setdefault(file, set()).update(range(first, first + max(count, 1)))
    return changed


def draw(root, revision, most, seed):
    """(file, fault) of at most `most` faults, drawn from all that there are: others with every seed."""
    every = [(file, fault) for file, lines in sorted(changed_lines(root, revision).items()) if (root / file).is_file()
             for fault in faults_of((root / file).read_text(), lines)]
    return sorted(random.Random(seed).sample(every, min(most, len(every))), key=lambda each: (each[0], each[1].line))
