"""Go's `fmt.Sprintf` of a text without operands, verb by verb."""

from __future__ import annotations

import pytest

from tidewright.autoscaler.tell.go_format import without_operands


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("no verb", "no verb"),
        ("100%%", "100%"),
        ("100%", "100%!(NOVERB)"),
        ("%d", "%!d(MISSING)"),
        ("a %s b %v c", "a %!s(MISSING) b %!v(MISSING) c"),
        ("%z and %!", "%!z(MISSING) and %!!(MISSING)"),
        ("90% of", "90%!o(MISSING)f"),  # a blank is a flag
        ("%5d%-08.3f%+q%#x", "%!d(MISSING)%!f(MISSING)%!q(MISSING)%!x(MISSING)"),
        ("%5%|%.%|%-%", "%|%|%"),
        ("%*d", "%!(BADWIDTH)%!d(MISSING)"),
        ("%.*f", "%!(BADPREC)%!f(MISSING)"),
        ("%*.*f", "%!(BADWIDTH)%!(BADPREC)%!f(MISSING)"),
        ("%*", "%!(BADWIDTH)%!(NOVERB)"),
        ("%*%", "%!(BADWIDTH)%"),
        ("%[1]d", "%!d(BADINDEX)"),
        ("%[0]d%s", "%!d(BADINDEX)%!s(MISSING)"),
        ("%[2]*[1]d", "%!(BADWIDTH)%!d(BADINDEX)"),
        ("%[1]5d%[1].2f%.[1]d", "%!d(BADINDEX)%!f(BADINDEX)%!d(BADINDEX)"),
        ("%[x]d", "%!d(BADINDEX)"),
        ("%[x][y]d", "%!d(BADINDEX)"),  # an index that cannot be read may be followed by another,
        ("%[1][2]d", "%![(BADINDEX)2]d"),  # and one that can be may not
        ("%[1d", "%!d(BADINDEX)"),
        ("%[x", "%!x(BADINDEX)"),
        ("%[]", "%!](BADINDEX)"),
        ("%[]d", "%!d(BADINDEX)"),
        ("%[", "%!(NOVERB)"),
        ("%[99999999]d", "%!d(BADINDEX)"),
        ("%1000001d", "%!d(MISSING)"),
        ("%10000010d and more", "%!(NOVERB)"),
        ("%é%語", "%!é(MISSING)%!語(MISSING)"),
        ("%\n%", "%!\n(MISSING)%!(NOVERB)"),
        ("rps{map[share:50%cpu]} above target", "rps{map[share:50%!c(MISSING)pu]} above target"),
    ],
)
def test_a_text_without_operands_is_printed_as_go_prints_it(text: str, printed: str) -> None:
    assert without_operands(text) == printed
