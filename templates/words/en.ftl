# Words of the pages for recipients. `direction` is ltr or rtl.
# A language has its own file beside this one, named by its BCP 47 tag. A message that it lacks is shown in English.

direction = ltr

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
next_if_new = Next digest: { $when }, if there is something new.
next_at_once = Next digest: as soon as there is something new.
next_off = You do not get this digest.
next_paused = Paused: nothing is sent before { $when }.
next_stopped = The sender has stopped this digest for now. What is new will come later.
next_suppressed = Nothing is sent to your address, because messages came back or were reported as spam.
next_never = This digest is never sent.

# How often
often_default = As usual: { $cadence }
often_kept = As now: { $cadence }
often_instant = At once, one email for each event
often_hourly = Every hour
often_daily = Every day
often_weekdays = Monday to Friday
often_weekly = Every week
cadence_instant = at once, one email for each event
cadence_after = { $wait } after something happens
cadence_sliding = after { $wait } of silence, and after { $most } at the latest
cadence_hourly = every hour, { $minute } minutes past
cadence_daily = every day at { $time }
cadence_weekdays = Monday to Friday at { $time }
cadence_weekly = every { $day } at { $time }
cadence_cron = on a schedule of its own
cadence_never = never

# Times
when = { $day } { $time } ({ $zone })
today = today, { $date }
tomorrow = tomorrow, { $date }
date = { $weekday } { $day } { $month }
mon = Monday
tue = Tuesday
wed = Wednesday
thu = Thursday
fri = Friday
sat = Saturday
sun = Sunday
mon_short = Mon
tue_short = Tue
wed_short = Wed
thu_short = Thu
fri_short = Fri
sat_short = Sat
sun_short = Sun
month_1 = Jan
month_2 = Feb
month_3 = Mar
month_4 = Apr
month_5 = May
month_6 = Jun
month_7 = Jul
month_8 = Aug
month_9 = Sep
month_10 = Oct
month_11 = Nov
month_12 = Dec
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
