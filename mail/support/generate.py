"""Writes what large mail clients do not support, from Can I email's data, to support.json beside this script.

usage: npm pack caniemail && tar xzf caniemail-*.tgz && python3 mail/support/generate.py package
"""

import json
import re
import sys
from pathlib import Path

CLIENTS = {
    "apple-mail": {"macos": "Apple Mail (macOS)", "ios": "Apple Mail (iOS)"},
    "gmail": {"desktop-webmail": "Gmail", "ios": "Gmail (iOS)", "android": "Gmail (Android)"},
    "outlook": {
        "windows": "Outlook (Windows)",
        "outlook-com": "Outlook.com",
        "macos": "Outlook (macOS)",
        "ios": "Outlook (iOS)",
        "android": "Outlook (Android)",
    },
    "yahoo": {"desktop-webmail": "Yahoo! Mail", "ios": "Yahoo! Mail (iOS)", "android": "Yahoo! Mail (Android)"},
    "samsung-email": {"android": "Samsung Email"},
}

SIDES = ["start", "end"]
LOGICAL = ["inline", "block"]


def logical(pattern):
    """The properties of a pattern with AXIS and SIDE."""
    axes = [pattern.replace("AXIS", axis) for axis in LOGICAL] if "AXIS" in pattern else [pattern]
    return [name.replace("SIDE", side) for name in axes for side in (SIDES if "SIDE" in pattern else [""])]


# What features are about whose title is not the name of a property.
CSS = {
    "css-block-inline-size": ("property", ["block-size", "inline-size"]),
    "css-border-inline-block": ("property", logical("border-AXIS")),
    "css-border-inline-block-individual": ("property", logical("border-AXIS-SIDE")),
    "css-border-inline-block-longhand": (
        "property",
        [f"border-{axis}-{what}" for axis in LOGICAL for what in ("color", "style", "width")],
    ),
    "css-border-radius-logical": ("property", [f"border-{a}-{b}-radius" for a in SIDES for b in SIDES]),
    "css-column-layout-properties": ("property", ["columns", "column-width", "column-rule", "column-span"]),
    "css-flex-direction": ("property", ["flex-direction"]),
    "css-flex-wrap": ("property", ["flex-wrap"]),
    "css-gap": ("property", ["gap", "column-gap", "row-gap"]),
    "css-grid-template": ("property", [f"grid-template-{what}" for what in ("areas", "columns", "rows")]),
    "css-left-right-top-bottom": ("property", ["left", "right", "top", "bottom"]),
    "css-margin-block-start-end": ("property", logical("margin-block-SIDE")),
    "css-margin-inline-block": ("property", logical("margin-AXIS")),
    "css-margin-inline-start-end": ("property", logical("margin-inline-SIDE")),
    "css-padding-block-start-end": ("property", logical("padding-block-SIDE")),
    "css-padding-inline-block": ("property", logical("padding-AXIS")),
    "css-padding-inline-start-end": ("property", logical("padding-inline-SIDE")),
    "css-color-scheme": ("property", ["color-scheme"]),
    "css-scroll-snap": ("property", ["scroll-snap-align", "scroll-snap-type"]),
    "css-font": ("property", ["font"]),
    "css-display-flex": ("value", ["display:flex", "display:inline-flex"]),
    "css-display-grid": ("value", ["display:grid", "display:inline-grid"]),
    "css-display-none": ("value", ["display:none"]),
    "css-variables": ("function", ["var"]),
    "css-unit-calc": ("function", ["calc"]),
    "css-modern-color": ("function", ["lab", "lch", "oklab", "oklch"]),
    "css-at-media-hover": ("media", ["hover", "any-hover"]),
    "css-at-media-device-pixel-ratio": ("media", ["-webkit-device-pixel-ratio"]),
    "css-pseudo-class-lang": ("pseudo", ["lang"]),
    "css-pseudo-class-has": ("pseudo", ["has"]),
}

SEMANTIC = "article aside details figcaption figure footer header main mark nav section summary time".split()
HTML = {
    "html-address": ("element", ["address"]),
    "html-base": ("element", ["base"]),
    "html-h1-h6": ("element", [f"h{n}" for n in range(1, 7)]),
    "html-image-maps": ("element", ["map", "area"]),
    "html-lists": ("element", ["ul", "ol", "dl"]),
    "html-semantics": ("element", SEMANTIC),
    "html-srcset": ("attribute", ["srcset", "sizes"]),
    "html-svg": ("element", ["svg"]),
}
# Every message has these, and no template can do without.
LEFT_OUT = {"html-body", "html-doctype", "html-comments", "html-anchor-links", "html-mailto-links"}


def subject(feature):
    """The kind of a feature and its names in a template; nothing for what a template does not name."""
    slug, title = feature["slug"], feature["title"].strip()
    if slug in LEFT_OUT or feature["category"] not in ("css", "html"):
        return None
    if known := CSS.get(slug) or HTML.get(slug):
        return known
    patterns = [
        ("property", r"([a-z-]+)( property)?"),
        ("function", r"([a-z-]+)\(\)"),
        ("unit", r"([a-z]+) unit"),
        ("pseudo", r"::?([a-z-]+)"),
        ("at_rule", r"@([a-z-]+)"),
        ("media", r"@media \(([a-z-]+)\)"),
        ("element", r"<([a-z0-9]+)> element"),
        ("element", r"<([a-z0-9]+)>"),
        ("attribute", r"([a-z-]+) attribute"),
    ]
    kinds = ("attribute", "element") if feature["category"] == "html" else ("property", "function", "unit", "pseudo", "at_rule", "media")
    for kind, pattern in patterns:
        if kind in kinds and (found := re.fullmatch(pattern, title)):
            return kind, [found.group(1)]
    return None


def lacking(stats):
    """The clients whose latest tested version does not support a feature."""
    for family, platforms in CLIENTS.items():
        for platform, name in platforms.items():
            versions = stats.get(family, {}).get(platform, {})
            # Versions stand in the order of their tests.
            if versions and list(versions.values())[-1].split()[0] == "n":
                yield name


def main(package):
    data = json.loads((package / "data/caniemail.json").read_text())
    version = json.loads((package / "package.json").read_text())["version"]
    clients = [name for platforms in CLIENTS.values() for name in platforms.values()]
    features = []
    for feature in sorted(data["data"], key=lambda feature: feature["slug"]):
        unsupported, about = list(lacking(feature["stats"])), subject(feature)
        if unsupported and about:
            kind, names = about
            places = [clients.index(name) for name in unsupported]
            features.append({"slug": feature["slug"], "kind": kind, "names": names, "unsupported": places})
    head = {
        "about": "What large mail clients do not support, by Can I email (https://www.caniemail.com). Made by generate.py.",
        "source": f"caniemail {version} of the npm registry",
        "date": data["last_update_date"][:10],
        "licence": (package / "LICENSE").read_text().strip(),
        "clients": clients,
    }
    lines = ",\n".join("    " + json.dumps(feature) for feature in features)
    body = json.dumps(head, indent=2, ensure_ascii=False)[:-2]
    Path(__file__).with_name("support.json").write_text(f'{body},\n  "features": [\n{lines}\n  ]\n}}\n')


main(Path(sys.argv[1]))
