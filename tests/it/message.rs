//! Single messages, and the reports of providers about them.

mod bounces;
mod brands;
mod commands;
mod delivery;
mod delivery_events;
mod looks;
mod one_click;
mod pages;
mod pause;
mod tracking;
mod waiting;
mod webhook_commands;
mod webhooks;
mod workshop;
