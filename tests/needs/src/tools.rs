/// Tools that tests need: the name in `#[needs(...)]`, the variable that points to the tool, and the program that the tests
/// look for on the PATH without the variable.
pub const TOOLS: [(&str, &str, Option<&str>); 18] = [
    ("temporal", "TEMPORAL_CLI", Some("temporal")),
    ("test_server", "TEMPORAL_TEST_SERVER", Some("temporal-test-server")),
    ("postgres", "TIDINGS_TEST_DATABASE_URL", None),
    ("chaos_postgres", "TIDINGS_CHAOS_DATABASE_URL", None),
    ("python", "TIDINGS_TEST_PYTHON", None),
    ("chromium", "TIDINGS_TEST_CHROMIUM", None),
    ("page_checkers", "TIDINGS_TEST_PAGE_CHECKERS", None),
    ("postfix", "TIDINGS_TEST_POSTFIX", None),
    ("exim", "TIDINGS_TEST_EXIM", None),
    ("nginx", "TIDINGS_TEST_NGINX", None),
    ("caddy", "TIDINGS_TEST_CADDY", None),
    ("curl", "TIDINGS_TEST_CURL", Some("curl")),
    ("node", "TIDINGS_TEST_NODE", Some("node")),
    ("go", "TIDINGS_TEST_GO", Some("go")),
    ("typescript_sdk", "TIDINGS_TEST_TYPESCRIPT_SDK", None),
    ("java_sdk", "TIDINGS_TEST_JAVA_SDK", None),
    ("issuer", "TIDINGS_TEST_ISSUER", None),
    ("spamassassin", "TIDINGS_TEST_SPAMASSASSIN", None),
];
