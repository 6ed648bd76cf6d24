//! Crashes, outages and races: every event is in exactly one email all the same.

mod chaos;
mod choices;
mod crash_points;
mod emit_http;
mod fencing;
mod frontends;
pub(crate) mod gateway;
mod gateway_crashes;
mod installation;
mod lost_task;
mod races;
mod real_events;
mod recycling;
mod relay_outage;
mod returned;
mod seeded_bugs;
mod sweep;
mod terminated_run;
mod two_files;
mod unknown_type;
mod worker_outage;
