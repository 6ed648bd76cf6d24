direction = ltr

# Die Seite der Einstellungen
title = Ihre E-Mails
title_of = Ihre E-Mails von { $sender }
about = { $address ->
    [unknown] Diese Einstellungen gelten für Sie.
   *[other] Diese Einstellungen gelten für { $address }.
}
intro = Wählen Sie, welche Zusammenfassungen Sie bekommen, und wann. Eine Zusammenfassung enthält alles Neue seit der letzten und kommt nur, wenn es etwas Neues gibt.
on = Diese Zusammenfassung bekommen
how_often = Wie oft
day = Tag
time = Uhrzeit
categories = Was darin steht
pause = Pause bis
pause_hint = Vor diesem Tag wird nichts gesendet. Was inzwischen geschieht, steht in der ersten Zusammenfassung danach.
zone = Zeitzone
zone_hint = Alle Zeiten auf dieser Seite gelten in dieser Zeitzone.
save = Speichern
none = Gar keine Zusammenfassungen
none_hint = Schaltet alle Zusammenfassungen dieser Seite ab.
undo = Rückgängig machen
nothing_to_choose = Es gibt nichts zu wählen: Es werden keine Zusammenfassungen mehr gesendet.

# Nach einer Änderung
saved = Ihre Einstellungen sind gespeichert.
unchanged = Es wurde nichts geändert.
undone = Die Änderung ist rückgängig gemacht.
all_off = Sie bekommen keine Zusammenfassungen mehr.
conflict = Ihre Einstellungen wurden inzwischen geändert, vielleicht in einem anderen Fenster. Es wurde nichts gespeichert. Unten steht, was jetzt gilt.
wrong = Es wurde nichts gespeichert: { $field } ist nicht möglich. Bitte wählen Sie noch einmal.

# Was als Nächstes kommt
next = Nächste Zusammenfassung: { $when }.
next_if_new = Nächste Zusammenfassung: { $when }, falls es etwas Neues gibt.
next_at_once = Nächste Zusammenfassung: sobald es etwas Neues gibt.
next_off = Sie bekommen diese Zusammenfassung nicht.
next_paused = Pause: Vor { $when } wird nichts gesendet.
next_stopped = Der Absender hat diese Zusammenfassung vorerst angehalten. Was neu ist, kommt später.
next_suppressed = An Ihre Adresse wird nichts gesendet, weil Nachrichten zurückkamen oder als Spam gemeldet wurden.
next_never = Diese Zusammenfassung wird nie gesendet.

# Wie oft
often_default = Wie üblich: { $cadence }
often_kept = Wie bisher: { $cadence }
often_instant = Sofort, eine E-Mail für jedes Ereignis
often_hourly = Jede Stunde
often_daily = Jeden Tag
often_weekdays = Montag bis Freitag
often_weekly = Jede Woche
cadence_instant = sofort, eine E-Mail für jedes Ereignis
cadence_after = { $wait } nach einem Ereignis
cadence_sliding = nach { $wait } Ruhe, spätestens nach { $most }
cadence_hourly = jede Stunde, { $minute } Minuten nach voll
cadence_daily = jeden Tag um { $time }
cadence_weekdays = Montag bis Freitag um { $time }
cadence_weekly = jeden { $day } um { $time }
cadence_cron = nach eigenem Zeitplan
cadence_never = nie

# Zeiten
when = { $day } { $time } ({ $zone })
today = heute, { $date }
tomorrow = morgen, { $date }
date = { $weekday } { $day }. { $month }
mon = Montag
tue = Dienstag
wed = Mittwoch
thu = Donnerstag
fri = Freitag
sat = Samstag
sun = Sonntag
mon_short = Mo
tue_short = Di
wed_short = Mi
thu_short = Do
fri_short = Fr
sat_short = Sa
sun_short = So
month_1 = Jan.
month_2 = Feb.
month_3 = März
month_4 = Apr.
month_5 = Mai
month_6 = Juni
month_7 = Juli
month_8 = Aug.
month_9 = Sept.
month_10 = Okt.
month_11 = Nov.
month_12 = Dez.
seconds = { $count ->
    [one] { $count } Sekunde
   *[other] { $count } Sekunden
}
minutes = { $count ->
    [one] { $count } Minute
   *[other] { $count } Minuten
}
hours = { $count ->
    [one] { $count } Stunde
   *[other] { $count } Stunden
}
days = { $count ->
    [one] { $count } Tag
   *[other] { $count } Tage
}

# Andere Seiten
unavailable = Das geht im Moment nicht
unavailable_text = Bitte versuchen Sie es in einer Minute noch einmal.
gone = Diese Nachricht ist nicht mehr gespeichert
gone_text = Nachrichten sind nur eine begrenzte Zeit im Browser zu lesen. Die E-Mail selbst ist davon nicht betroffen.

# Abmelden über den Link einer E-Mail
unsubscribe = Abmelden
unsubscribe_question = Abmelden?
unsubscribe_digest = { $address ->
    [unknown] Sie bekommen keine E-Mails „{ $digest }“ mehr.
   *[other] Sie bekommen keine E-Mails „{ $digest }“ mehr an { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Sie bekommen keine Newsletter und andere Massensendungen mehr.
   *[other] Sie bekommen keine Newsletter und andere Massensendungen mehr an { $address }.
}
unsubscribed = Sie sind abgemeldet
unsubscribed_digest = { $address ->
    [unknown] Es werden keine E-Mails „{ $digest }“ mehr gesendet.
   *[other] Es werden keine E-Mails „{ $digest }“ mehr an { $address } gesendet.
}
unsubscribed_bulk = { $address ->
    [unknown] Es werden keine Newsletter und andere Massensendungen mehr gesendet.
   *[other] Es werden keine Newsletter und andere Massensendungen mehr an { $address } gesendet.
}
