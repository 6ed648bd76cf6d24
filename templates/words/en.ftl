# Words that recipients read in messages and on pages.
# A language has its own file beside this one, named by its BCP 47 tag. A message that it lacks is shown in English.
# Numbers, dates, times and lists arrive as the language writes them.

# Messages

# $count is a number of events.
updates = { $count ->
    [one] { $count } update
   *[other] { $count } updates
}
alerts = { $count ->
    [one] { $count } alert
   *[other] { $count } alerts
}
# A name and its title: `docs: Better tracing`.
titled = { $name }: { $title }
# The words before a link in plain text.
link_label = { $words }:

# Subjects. $quantity is `12 changes`, $entity is `crates/cli`.
quantity_in = { $quantity } in { $entity }
# $what is `12 changes in crates/cli`, $places is `7 areas`.
in_all = { $what }, { $places } in all
more_updates = { $count ->
    [one] { $what } and { $count } more update
   *[other] { $what } and { $count } more updates
}
more_alerts = { $count ->
    [one] { $what } and { $count } more alert
   *[other] { $what } and { $count } more alerts
}
updates_in_digest = { $count ->
    [one] { $count } update in your { $digest } digest
   *[other] { $count } updates in your { $digest } digest
}

# $from is a day and a time. $to is a time, or a day and a time.
span = { $from } to { $to }
latest = latest { $time }
and_others = { $count ->
    [one] { $name } and { $count } other
   *[other] { $name } and { $count } others
}
and_more = and { $count } more
other_section = Other
# A link to what the message leaves out.
show_more = { $count ->
    [one] Show { $count } more update
   *[other] Show { $count } more updates
}

# The template `summary`: numbers. $what is `New sign-ups: 1,204`.
more_numbers = { $count ->
    [one] { $what } and { $count } more number
   *[other] { $what } and { $count } more numbers
}
rise = up { $percent }%
fall = down { $percent }%
steady = no change
before = before: { $value }

# The template `review`: what waits for the recipient. $more is a number of further lines. $unit is days, hours or minutes.
waiting_for_you = { $more ->
    [0] Waiting for you: { $title }
   *[other] Waiting for you: { $title } and { $more } more
}
waiting = { $unit ->
    [days] { $count ->
        [one] waiting for { $count } day
       *[other] waiting for { $count } days
    }
    [hours] { $count ->
        [one] waiting for { $count } hour
       *[other] waiting for { $count } hours
    }
   *[minutes] { $count ->
        [one] waiting for { $count } minute
       *[other] waiting for { $count } minutes
    }
}

# The footer. $cadence is `every day at 8:00 AM`.
why = You get this email because the { $digest } digest is on for you.
why_named = { $name }, you get this email because the { $digest } digest is on for you.
comes = How often: { $cadence }.
times_zone = Time zone: { $zone }.
change_how_often = Change how often
view_in_browser = View in browser

# For somebody who opens nothing: the link, and the page behind it. $cadence is `every day at 8:00 AM`.
adapted = You have not opened these emails for a while, so they come once a week now.
as_before = Get them as often as before
as_before_text = How often the “{ $digest }” emails come: { $cadence }.

# Categories and entity types, after a number. `noun_NAME` says the name NAME, and `noun` any other.
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } change
   *[other] { $count } changes
}
noun_comment = { $count ->
    [one] { $count } comment
   *[other] { $count } comments
}
noun_fix = { $count ->
    [one] { $count } fix
   *[other] { $count } fixes
}
noun_dependency = { $count ->
    [one] { $count } dependency
   *[other] { $count } dependencies
}
noun_reminder = { $count ->
    [one] { $count } reminder
   *[other] { $count } reminders
}
noun_share = { $count ->
    [one] { $count } share
   *[other] { $count } shares
}
noun_outage = { $count ->
    [one] { $count } outage
   *[other] { $count } outages
}
noun_recovery = { $count ->
    [one] { $count } recovery
   *[other] { $count } recoveries
}
noun_build_failure = { $count ->
    [one] { $count } build failure
   *[other] { $count } build failures
}
noun_disk_warning = { $count ->
    [one] { $count } disk warning
   *[other] { $count } disk warnings
}
noun_area = { $count ->
    [one] { $count } area
   *[other] { $count } areas
}
noun_document = { $count ->
    [one] { $count } document
   *[other] { $count } documents
}
noun_review = { $count ->
    [one] { $count } review
   *[other] { $count } reviews
}
noun_approval = { $count ->
    [one] { $count } approval
   *[other] { $count } approvals
}
noun_page = { $count ->
    [one] { $count } page
   *[other] { $count } pages
}
noun_service = { $count ->
    [one] { $count } service
   *[other] { $count } services
}
noun_host = { $count ->
    [one] { $count } host
   *[other] { $count } hosts
}
noun_pipeline = { $count ->
    [one] { $count } pipeline
   *[other] { $count } pipelines
}

# Counts. `count_NAMEs` says the names NAMEs and NAME, and `count` any other.
count = { $count } { $name }
count_critical = { $count } critical
count_failed = { $count } failed
count_failures = { $count ->
    [one] { $count } failure
   *[other] { $count } failures
}
count_errors = { $count ->
    [one] { $count } error
   *[other] { $count } errors
}
count_warnings = { $count ->
    [one] { $count } warning
   *[other] { $count } warnings
}
count_files = { $count ->
    [one] { $count } file
   *[other] { $count } files
}
count_down = { $count } down
count_fatal = { $count } fatal
count_degraded = { $count } degraded
count_unstable = { $count } unstable
count_flaky = { $count } flaky
count_skipped = { $count } skipped
count_passed = { $count } passed
count_resolved = { $count } resolved
count_recovered = { $count } recovered
count_fixed = { $count } fixed

# The page of preferences
title = Your emails
title_of = Your emails from { $sender }
about = { $address ->
    [unknown] These choices are for you.
   *[other] These choices are for { $address }.
}
intro = Choose which digests you get, and when. A digest has everything new since the one before, and comes only if there is something new.
on = Send me this digest
how_often = How often
day = Day
day_of_month = Day of the month
last_day = Last day
time = Time
categories = What is in it
pause = Pause until
pause_hint = Nothing is sent before this day. What happens meanwhile is in the first digest after it.
zone = Time zone
zone_hint = All times on this page are in this zone.
save = Save
none = No digests at all
none_hint = Turns off every digest on this page.
undo = Undo
nothing_to_choose = There is nothing to choose: no digests are sent any more.

# After a change
saved = Your choices are saved.
unchanged = Nothing was changed.
undone = The change is undone.
all_off = You get no more digests.
conflict = Your choices were changed meanwhile, perhaps in another window. Nothing was saved. Below is what holds now.
wrong = Nothing was saved: { $field } is not possible. Choose again.

# What comes next
next = Next digest: { $when }.
next_then = Next digest: { $when }. After that: { $cadence }.
next_if_new = Next digest: { $when }, if there is something new.
next_at_once = Next digest: as soon as there is something new.
next_off = You do not get this digest.
next_paused = Paused: nothing is sent before { $when }.
next_paused_due = Paused: nothing is sent before { $until }. Next digest: { $when }.
next_stopped = The sender has stopped this digest for now. What is new will come later.
next_suppressed = Nothing is sent to your address, because messages came back or were reported as spam.
next_never = This digest is never sent.

# How often, as entries of a list
often_default = As usual: { $cadence }
often_kept = As now: { $cadence }
often_instant = At once, one email for each event
often_hourly = Every hour
often_daily = Every day
often_weekdays = Monday to Friday
often_weekly = Every week
often_monthly = Every month

# How often, after a colon. $day is mon, tue, wed, thu, fri, sat or sun; in cadence_monthly it is a number, and 31 is the last day.
# $days is days_range, or a list of days; $first and $last are names of days; $time may be a list of times.
cadence_instant = at once, one email for each event
cadence_after = { $wait } after something happens
cadence_sliding = after { $wait } of silence, and after { $most } at the latest
cadence_every_hour = every hour
cadence_hourly = every hour, at minute { $minute }
cadence_daily = every day at { $time }
cadence_weekdays = Monday to Friday at { $time }
cadence_days = { $days } at { $time }
days_range = { $first } to { $last }
cadence_weekly = { $day ->
    [mon] every Monday
    [tue] every Tuesday
    [wed] every Wednesday
    [thu] every Thursday
    [fri] every Friday
    [sat] every Saturday
   *[sun] every Sunday
} at { $time }
cadence_monthly = { $day ->
    [31] on the last day of every month
   *[other] on day { $day } of every month
} at { $time }
cadence_cron = on a schedule of its own
cadence_never = never

# Times. $day is `tomorrow, Wed, Nov 25`.
when = { $day }, { $time } ({ $zone })
today = today, { $date }
tomorrow = tomorrow, { $date }

# Durations, in the phrases cadence_after and cadence_sliding
seconds = { $count ->
    [one] { $count } second
   *[other] { $count } seconds
}
minutes = { $count ->
    [one] { $count } minute
   *[other] { $count } minutes
}
hours = { $count ->
    [one] { $count } hour
   *[other] { $count } hours
}
days = { $count ->
    [one] { $count } day
   *[other] { $count } days
}

# Other pages
unavailable = This does not work at the moment
unavailable_text = Please try again in a minute.
gone = This message is no longer kept
gone_text = Messages can be read in the browser for a limited time only. The email itself is not affected.
not_found = This link does not work
not_found_text = Perhaps only a part of it was copied. Please open it from the email, or copy the whole link.

# Unsubscribing by the link of an email. $address is `unknown` or an address in part.
unsubscribe = Unsubscribe
unsubscribe_question = Unsubscribe?
unsubscribe_digest = { $address ->
    [unknown] You will get no more “{ $digest }” emails.
   *[other] You will get no more “{ $digest }” emails at { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] You will get no more newsletters and other bulk messages.
   *[other] You will get no more newsletters and other bulk messages at { $address }.
}
unsubscribed = You are unsubscribed
unsubscribed_digest = { $address ->
    [unknown] No more “{ $digest }” emails will be sent.
   *[other] No more “{ $digest }” emails will be sent to { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] No more newsletters and other bulk messages will be sent.
   *[other] No more newsletters and other bulk messages will be sent to { $address }.
}
# Behind `unsubscribed_digest`, on the page of an old email whose kind has another name now or none.
former_name = Emails no longer go out under this name. If you still get some, please unsubscribe with the link in the latest one.
