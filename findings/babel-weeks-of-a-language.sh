#!/usr/bin/env bash
# Babel 2.19.0 (PyPI): the first day of the week and the weekend of a language without a region.
#
# Expected: those of the language's likely region, as UTS 35 (part 4, "Week Data", and part 1, "Likely Subtags") infers it and as
# Intl.Locale("ar").getWeekInfo() of Node.js 24 does: Egypt's for `ar`, Iran's for `fa`, Israel's for `he`, the United States' for `en`.
# Seen: those of the world, 001: weeks begin on Monday, and the weekend is Saturday and Sunday. With the region it is right.
#
# So what is sent "on working days" to people whose language is stored as `ar` or `he` comes on Friday and not on Sunday. Give Locale.parse()
# the likely region first: babel.core.get_global("likely_subtags") has it.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund node@24.11.0
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check babel==2.19.0
cat > try.mjs <<'JS'
for (const tag of ['ar', 'fa', 'he', 'en', 'ar-EG', 'fa-IR', 'he-IL', 'en-US']) {
    const { firstDay, weekend } = new Intl.Locale(tag).getWeekInfo()
    console.log(tag, firstDay, weekend.join('+'))
}
JS
cat > try.py <<'PY'
from babel import Locale

for tag in ("ar", "fa", "he", "en", "ar-EG", "fa-IR", "he-IL", "en-US"):
    locale = Locale.parse(tag, sep="-")
    # Days from 1, Monday, as Intl counts them.
    days = range(locale.weekend_start, locale.weekend_end + 1)
    print(tag, locale.first_week_day + 1, "+".join(str(day + 1) for day in days))
PY
intl=$(PATH=$PWD/node_modules/.bin:$PATH node try.mjs)
babel=$(venv/bin/python try.py)
printf 'Intl\n%s\nBabel\n%s\n' "$intl" "$babel"
regions='ar-EG 6 5+6
fa-IR 6 5
he-IL 7 5+6
en-US 7 6+7'
[ "$intl" = "ar 6 5+6
fa 6 5
he 7 5+6
en 7 6+7
$regions" ]
[ "$babel" = "ar 1 6+7
fa 1 6+7
he 1 6+7
en 1 6+7
$regions" ]
