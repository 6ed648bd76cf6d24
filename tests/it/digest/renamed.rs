//! A digest type and a tenant with other names, over a life with open windows, an unsubscription, a pause and a link: each "no" holds, and
//! nothing that was open is lost (rule 58).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use jiff::Timestamp;
use tidings_client::WorkflowCommands;
use tidings_harness::env::{Env, event, key, order, settings};
use tidings_model::{
    Key, PersonId, UnsubscribeLink,
    command::HoldCommand,
    names,
    pause::{PauseDetails, PauseScope},
    records::{AuditEntry, NameKind, Recipient, Suppression, SuppressionReason},
    settings::{FormerNames, Settings},
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_operations::{erase::PersonErasure, person_keys};
use tidings_services::{choices, unsubscribe::unsubscribe};
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage};
use uuid::Uuid;

fn renamed(before: &Settings) -> Settings {
    let was = |was: &str, today: &str| [(was.to_owned(), today.to_owned())].into();
    let names = FormerNames { digests: was("activity", "news"), tenants: was("acme", "initech") };
    let mut news = settings("after 1s", "after 1s").digests["activity"].clone();
    news.spread = Some(Duration::from_secs(1));
    Settings { names, digests: [("news".to_owned(), news)].into(), ..before.clone() }
}

fn news(user: &str) -> Key {
    Key { tenant: "initech".to_owned(), ..key("news", user) }
}

fn scope(tenant: &str, digest_type: &str) -> PauseScope {
    PauseScope { tenant: Some(tenant.to_owned()), digest_type: Some(digest_type.to_owned()) }
}

async fn outcomes(env: &Env, key: &Key) -> Result<Vec<DigestOutcome>> {
    env.completed(key).await?;
    let digests = env.store.digests(key, 10).await?;
    Ok(digests.into_iter().filter_map(|digest| Some(digest.closed?.outcome)).collect())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_no_and_an_open_window_outlive_another_name_of_type_and_tenant() -> Result<()> {
    let mut env = Env::start(settings("after 1h", "after 1h")).await?;
    let (late, quitter, gone) = (key("activity", "late"), key("activity", "quitter"), key("activity", "gone"));
    for key in [&late, &quitter] {
        env.events.emit(event(key, "e1")).await?;
        env.status_when(key, "it collects", |status| status.due_at.is_some()).await?;
    }
    let (held, refused) = (key("activity", "held"), key("activity", "refused"));
    env.events.emit(event(&held, "e1")).await?;
    env.status_when(&held, "it collects", |status| status.due_at.is_some()).await?;
    env.update(&held, Digest::hold, HoldCommand { order: order(), until: None }).await?;
    let recipient = Recipient {
        tenant: refused.tenant.clone(),
        user: refused.user.clone(),
        address: "refused@example.com".into(),
        name: String::new(),
        zone: String::new(),
        locale: String::new(),
    };
    let (tenant, address, detail) = (refused.tenant.clone(), recipient.address.clone(), String::new());
    env.store.put_recipients(&[recipient], Timestamp::now()).await?;
    let suppression =
        Suppression { tenant, address, reason: SuppressionReason::HardBounce, detail, at: Timestamp::now() };
    env.store.suppress(&suppression).await?;
    let link =
        |key: &Key| UnsubscribeLink::Unsubscribe { key: key.clone(), message: Uuid::from_u128(7), generation: 0 };
    unsubscribe(&*env.store, &link(&gone), Timestamp::now()).await?;
    env.stop_worker()?;

    env.settings = renamed(&env.settings);
    let table = |name: &str| BTreeSet::from([name.to_owned()]);
    let tables = BTreeMap::from([(NameKind::Digest, table("news")), (NameKind::Tenant, table("initech"))]);
    env.store.put_names(&env.settings.names, &tables).await?;
    env.start_worker()?;
    // The link of an email from today ends the window of the former name, too.
    unsubscribe(&*env.store, &link(&news("quitter")), Timestamp::now()).await?;
    for key in [&late, &quitter] {
        env.update(key, Digest::flush, order()).await?;
    }
    for key in [news("gone"), news("refused")] {
        env.events.emit(event(&key, "e2")).await?;
    }
    assert_eq!(outcomes(&env, &late).await?, [DigestOutcome::Sent]);
    for key in [&quitter, &news("gone"), &news("refused")] {
        let ended = outcomes(&env, key).await?;
        assert!(ended.len() == 1 && ended[0] != DigestOutcome::Sent, "{key}: {ended:?}");
    }

    // A command to today's key reaches the window of the former name, which is on hold still.
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    let open = commands.open_name(&env.settings.names, &news("held")).await?;
    assert_eq!(open, held);
    assert_eq!(commands.open_name(&env.settings.names, &key("activity", "nobody")).await?, news("nobody"));
    assert!(env.status(&held).await?.hold.is_some());
    commands.digest(&open).drop_pending(order()).await?;
    assert_eq!(outcomes(&env, &held).await?, [DigestOutcome::Dropped]);

    let paused = PauseDetails { by: "carol".into(), why: "wrong prices".into(), since: Timestamp::now(), until: None };
    env.store.pause(&scope("acme", "activity"), false, &paused).await?;
    env.events.emit(event(&news("late"), "e3")).await?;
    env.reaches(&news("late"), DigestStage::Paused).await?;
    let (actor, action, why) = ("carol".to_owned().into(), "resume".to_owned(), "fixed".to_owned());
    env.store.resume(&scope("initech", "news"), &AuditEntry { at: Timestamp::now(), actor, action, why }).await?;
    choices::signal_workflow(&env.temporal, news("late").workflow_id()).await?;
    assert_eq!(outcomes(&env, &news("late")).await?, [DigestOutcome::Sent]);
    assert_eq!(env.relay.mails().len(), 2);

    let person = PersonId::from_key(&news("late"));
    let people = person_keys::person_under_each_name(&*env.store, &env.settings, &person).await?;
    let erasure = PersonErasure {
        store: &*env.store,
        archive: None,
        person: &person,
        people: &people,
        types: env.settings.digest_types(&person.tenant),
        task_queue: names::TASK_QUEUE,
    };
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    let erased = erasure.run(&env.temporal, &commands, &order(), Duration::ZERO, |_| ()).await?;
    assert!(erased.is_complete() && erased.erased.messages == 2, "under both names: {erased:?}");
    for person in &people {
        let types = BTreeSet::from(["activity".to_owned(), "news".to_owned()]);
        assert!(env.store.preview_erasure(person, &types, &BTreeSet::new()).await?.is_nothing(), "{person}");
    }
    Ok(())
}
