//! Decides which declarations go into which `style` attribute, and which rules stay where they are. A rule that may apply to an
//! element, but not in every message, stays; then nothing that it could override is inlined there. So the message looks the same
//! in a client that reads `<style>`, and as good as possible in every other one.

use std::collections::BTreeSet;

use super::{
    elements::Element,
    family::Member,
    file::File,
    matches::Matches,
    selector::{Reach, Selector},
    sheet::{Declaration, Rule, Stays},
};

/// All that is known of the templates.
pub(super) struct Known<'k> {
    pub files: &'k [File<'k>],
    pub members: &'k [Member],
    /// For each file, if conditions leave the ancestors of elements alone.
    pub regular: &'k [bool],
    /// In the order in which they override each other.
    pub rules: &'k [Rule],
    pub elements: &'k [Element],
    /// The selectors of all rules, each with the number of its rule.
    pub selectors: &'k [(usize, &'k Selector)],
    pub matches: &'k Matches,
}

/// The future of the styles.
pub(super) struct Decision<'k> {
    /// The declarations for each element.
    pub inlined: Vec<Vec<&'k Declaration>>,
    /// For each rule, if it stays in its style sheet.
    pub stays: Vec<bool>,
    /// For each rule, a remark for its author.
    pub remarks: Vec<Option<String>>,
}

/// The relation of a selector to an element.
enum Verdict {
    Never,
    /// Not in every message, for this reason.
    Perhaps(String),
    Always,
}

pub(super) fn decide<'k>(known: &Known<'k>) -> Decision<'k> {
    let rules = known.rules;
    let mut inlined = Vec::with_capacity(known.elements.len());
    let mut reasons: Vec<_> = rules.iter().map(|rule| own_reason(known, rule)).collect();
    let mut stays: Vec<_> = rules
        .iter()
        .map(|rule| rule.stays.is_some() || rule.selectors.iter().any(|selector| selector.reach != Reach::Exact))
        .collect();
    let mut used = vec![false; rules.len()];
    for element in 0..known.elements.len() {
        let (mut sure, mut contested) = (Vec::new(), BTreeSet::new());
        for (number, (rule, selector)) in known.selectors.iter().enumerate() {
            match verdict(known, element, number) {
                Verdict::Never => {}
                Verdict::Always => sure.push((selector.specificity(), *rule)),
                Verdict::Perhaps(reason) => {
                    stays[*rule] = true;
                    reasons[*rule].get_or_insert(reason);
                    contested.extend(rules[*rule].declarations.iter().map(|one| (one.family(), one.important)));
                }
            }
        }
        for (_, rule) in &sure {
            used[*rule] = true;
        }
        let mut declared = cascade(rules, sure);
        declared.retain(|(rule, one)| {
            let is_free =
                !contested.contains(&(one.family(), one.important)) && !contested.contains(&("all", one.important));
            stays[*rule] |= !is_free;
            is_free
        });
        inlined.push(declared.into_iter().map(|(_, one)| one).collect());
    }
    // A rule without elements may be meant for a client, which adds them.
    stays.iter_mut().zip(&used).for_each(|(stays, used)| *stays |= !used);
    let written = |rule: usize, reason: Option<String>| {
        let written = &rules[rule].written;
        let reason = reason.map(|reason| format!("`{written}` stays in <style>: {reason}"));
        reason.or_else(|| too_weak(known, rule, &inlined))
    };
    let remarks = reasons.into_iter().enumerate().map(|(rule, reason)| written(rule, reason)).collect();
    Decision { inlined, stays, remarks }
}

/// The reason that a rule has to stay by itself. A condition of CSS is none: it cannot be elsewhere.
fn own_reason(known: &Known<'_>, rule: &Rule) -> Option<String> {
    let is_always = || known.members[rule.file].always_has(&known.files[rule.file], rule.place.start);
    match rule.stays {
        Some(Stays::Code) => Some("it has code of Tera".into()),
        Some(Stays::Rules) => Some("it has rules inside".into()),
        None if !is_always() => Some("it is not in every message".into()),
        None | Some(Stays::Condition) => None,
    }
}

fn verdict(known: &Known<'_>, element: usize, selector: usize) -> Verdict {
    let (rule, Selector { compounds, reach }) = known.selectors[selector];
    let (rule, of) = (&known.rules[rule], &known.elements[element]);
    let (home, member) = (&known.members[rule.file], &known.members[of.file]);
    if rule.stays == Some(Stays::Condition) || !of.is_shown || !home.meets(member) || *reach > Reach::Wider {
        return Verdict::Never;
    }
    let own = compounds.len() - 1;
    if *reach == Reach::Wider {
        return if known.matches.may_be(element, selector, own) {
            Verdict::Perhaps("its selector asks for more than elements, classes and ids".into())
        } else {
            Verdict::Never
        };
    }
    let file = &known.files[of.file];
    let place = || {
        let line = 1 + file.source[..of.at].matches('\n').count();
        format!("<{}> in {}:{line}", &file.source[of.at + 1..of.after_name], file.name)
    };
    let reason = if known.matches.is_sure(element, selector) {
        if compounds.len() > 1 && !known.regular[of.file] {
            format!("a condition in {} opens an element without closing it", file.name)
        } else if let Some(reason) = own_reason(known, rule) {
            reason
        } else if !home.is_with(member) {
            format!("it also matches {}, which other messages have, too", place())
        } else if of.is_open {
            format!("it matches {}, whose attributes are made by code", place())
        } else {
            return Verdict::Always;
        }
    } else if known.matches.is_possible(element, selector) {
        format!("it may match {}, of which code makes a part", place())
    } else if known.matches.may_be(element, selector, own) && may_be_across(known, element, selector) {
        format!("it may match {} by elements of other files", place())
    } else {
        return Verdict::Never;
    };
    Verdict::Perhaps(reason)
}

/// Reports if elements around the element's file may complete the selector.
fn may_be_across(known: &Known<'_>, element: usize, selector: usize) -> bool {
    let around = &known.members[known.elements[element].file];
    let own = known.selectors[selector].1.compounds.len() - 1;
    let exists =
        |compound: usize| {
            known.elements.iter().enumerate().any(|(other, of)| {
                around.meets(&known.members[of.file]) && known.matches.may_be(other, selector, compound)
            })
        };
    own > 0 && around.is_inside && (0..own).all(exists)
}

/// The declarations of rules with their specificities, without those that a stronger rule overrides. A rule's own repetitions stay:
/// they are for clients that do not know a value.
fn cascade(rules: &[Rule], mut sure: Vec<((usize, usize, usize), usize)>) -> Vec<(usize, &Declaration)> {
    sure.sort_unstable();
    let last = |at: usize| !sure[at + 1..].iter().any(|(_, rule)| *rule == sure[at].1);
    let order: Vec<_> = (0..sure.len()).filter(|at| last(*at)).map(|at| sure[at].1).collect();
    let mut declared: Vec<(usize, &Declaration)> = Vec::new();
    for rule in order {
        for one in &rules[rule].declarations {
            let is_same = |other: &(usize, &Declaration)| other.0 != rule && other.1.name == one.name;
            if declared.iter().any(|other| is_same(other) && other.1.important && !one.important) {
                continue;
            }
            declared.retain(|other| !is_same(other));
            declared.push((rule, one));
        }
    }
    declared
}

/// Names the declarations of a rule for a state or a condition that lose to inlined ones.
fn too_weak(known: &Known<'_>, rule: usize, inlined: &[Vec<&Declaration>]) -> Option<String> {
    let of = &known.rules[rule];
    let is_late = |reach: Reach| of.stays == Some(Stays::Condition) && reach < Reach::State || reach == Reach::State;
    let meets = |element: &usize| known.members[of.file].meets(&known.members[known.elements[*element].file]);
    let late =
        known.selectors.iter().enumerate().filter(|(_, (number, selector))| *number == rule && is_late(selector.reach));
    let late: Vec<_> = late.map(|(number, (_, selector))| (number, selector.compounds.len() - 1)).collect();
    let matched = (0..known.elements.len()).filter(meets);
    let matched =
        matched.filter(|element| late.iter().any(|(number, own)| known.matches.may_be(*element, *number, *own)));
    let stronger: BTreeSet<_> = matched.flat_map(|element| &inlined[element]).map(|one| one.family()).collect();
    let weak = of.declarations.iter().filter(|one| !one.important && stronger.contains(one.family()));
    let weak: BTreeSet<_> = weak.map(|one| format!("`{}`", one.name)).collect();
    let names = weak.into_iter().collect::<Vec<_>>().join(", ");
    let written = &of.written;
    (!names.is_empty()).then(|| format!("`{written}` needs `!important` for {names}: the inlined styles are stronger"))
}
