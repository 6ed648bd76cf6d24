//! `tidings webhooks`: tests the webhooks of relays.

use crate::Config;

mod test;

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Sends a signed sample of each kind to the real route, and says what became of it
    #[command(after_help = "Examples:\n  \
        tidings webhooks test mailgun\n  \
        tidings webhooks test own --url http://127.0.0.1:8080 --json\n  \
        tidings send --tenant acme --to me@acme.example --key test-webhooks --template welcome\n  \
        tidings webhooks test mailgun --tenant acme --message test-webhooks\n\n\
        The samples are about a message that does not exist, so that they change no recipient. With --message they are about a test \
        message: a single message whose key begins with `test`. Its address is suppressed then; the answer says how to lift that.\n\n\
        Amazon SES and SendGrid sign with keys of their own. Of them the command shows that the route answers and refuses an \
        unsigned sample, and for SES that the server with the certificates of SNS can be reached from here. Use the test of the \
        provider's own pages for the rest.\n\n\
        Exit codes: 0 each sample was answered as expected, 1 one was not, 2 wrong usage.")]
    Test(test::Options),
}

/// Carries out the command. `false`: a sample was not answered as expected.
///
/// # Errors
/// There is no such webhook, its secret is not set, or the store does not answer.
pub(crate) async fn run(command: Command, config: &Config) -> anyhow::Result<bool> {
    match command {
        Command::Test(options) => test::run(options, config).await,
    }
}
