//! Plans requested by a signal without news.

use super::*;

fn again(settings: &DigestSettings, before: Plan) -> Plan {
    let input = PlanInput { before: Some(before), ..input() };
    plan(settings, &facts(), &input, vec!["a".into()], at(OPENED_AT))
}

#[test]
fn a_plan_without_a_later_event_keeps_the_words_of_its_time() {
    let sliding = settings("sliding 5m max 12m");
    let before = planned(&sliding, &facts());
    assert_eq!(again(&sliding, before.clone()), before);
}

#[test]
fn a_plan_of_an_older_version_gets_its_share_of_the_spread() {
    let daily = settings("daily 08:00");
    let before = planned(&daily, &facts());
    assert_eq!(again(&daily, Plan { share: None, ..before.clone() }), before);
}
