"""Colours that can be read, and words that are explained."""

import re
from itertools import product

import pytest

from nmfsync.report.glossary import GLOSSARY, Glossary
from nmfsync.report.page import environment, unbroken

NAMES = ("ink", "soft", "blue", "right", "wrong", "unknown", "added")


def schemes():
    """The variables of the light and of the dark scheme, from the style sheet of all pages."""
    css = environment().get_template("look.css").render()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return [dict(re.findall(r"--(\w+): #(\w{6})", block)) for block in blocks]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("scheme", "name"), [*product((0, 1), NAMES)])
def test_text_can_be_read_on_every_background(scheme, name):
    colours = schemes()[scheme]
    for background in ("paper", "wash", "alert"):
        assert contrast(colours[name], colours[background]) >= 4.5, background


def test_a_glossary_lists_the_words_of_its_page_in_its_own_order():
    glossary = Glossary()
    assert list(glossary.used) == []
    link = glossary.term("precision", "Precision\n<1 %>")
    assert 'href="#word-precision"' in link
    assert "Precision<br>&lt;1 %&gt;" in link
    glossary.use("match")
    assert list(glossary.used) == ["match", "precision"]
    assert not environment().globals["glossary"].used


def test_every_word_is_explained_in_whole_sentences():
    for key, word in GLOSSARY.items():
        assert re.fullmatch(r"[a-z-]+", key)
        assert word.meaning.endswith(".")


def test_a_percent_sign_stays_with_its_number():
    assert unbroken("<b> 9.5 % and 3") == ('&lt;b&gt; <span class="unbroken">9.5 %</span> and 3')
