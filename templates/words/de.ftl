# Wörter für Empfänger, in Nachrichten und auf Seiten. en.ftl erklärt sie.

# Nachrichten
updates = { $count ->
    [one] { $count } Neuigkeit
   *[other] { $count } Neuigkeiten
}
alerts = { $count ->
    [one] { $count } Alarm
   *[other] { $count } Alarme
}
titled = { $name }: { $title }
link_label = { $words }:

# Betreff
quantity_in = { $quantity } in { $entity }
in_all = { $what } (insgesamt { $places })
more_updates = { $count ->
    [one] { $what } und { $count } weitere Neuigkeit
   *[other] { $what } und { $count } weitere Neuigkeiten
}
more_alerts = { $count ->
    [one] { $what } und { $count } weiterer Alarm
   *[other] { $what } und { $count } weitere Alarme
}
updates_in_digest = { $count ->
    [one] { $count } Neuigkeit in Ihrer Zusammenfassung „{ $digest }“
   *[other] { $count } Neuigkeiten in Ihrer Zusammenfassung „{ $digest }“
}

span = { $from } bis { $to }
latest = zuletzt { $time }
and_others = { $count ->
    [one] { $name } und { $count } weitere Person
   *[other] { $name } und { $count } weitere Personen
}
and_more = und { $count } weitere
other_section = Sonstiges
show_more = { $count ->
    [one] { $count } weitere Neuigkeit ansehen
   *[other] { $count } weitere Neuigkeiten ansehen
}

# Die Vorlage `summary`
more_numbers = { $count ->
    [one] { $what } und { $count } weitere Zahl
   *[other] { $what } und { $count } weitere Zahlen
}
rise = { $percent } % mehr
fall = { $percent } % weniger
steady = unverändert
before = zuvor: { $value }

# Die Vorlage `review`
waiting_for_you = { $more ->
    [0] Wartet auf Sie: { $title }
   *[other] Wartet auf Sie: { $title } und { $more } weitere
}
waiting = { $unit ->
    [days] { $count ->
        [one] wartet seit { $count } Tag
       *[other] wartet seit { $count } Tagen
    }
    [hours] { $count ->
        [one] wartet seit { $count } Stunde
       *[other] wartet seit { $count } Stunden
    }
   *[minutes] { $count ->
        [one] wartet seit { $count } Minute
       *[other] wartet seit { $count } Minuten
    }
}

# Fuß
why = Sie bekommen diese E-Mail, weil die Zusammenfassung „{ $digest }“ für Sie eingeschaltet ist.
why_named = { $name }, Sie bekommen diese E-Mail, weil die Zusammenfassung „{ $digest }“ für Sie eingeschaltet ist.
comes = Wie oft: { $cadence }.
times_zone = Zeitzone: { $zone }.
change_how_often = Häufigkeit ändern
adapted = Sie haben diese E-Mails länger nicht geöffnet. Deshalb kommen sie jetzt einmal pro Woche.
as_before = Wieder so oft wie vorher bekommen
as_before_text = So oft kommen die E-Mails „{ $digest }“: { $cadence }.
view_in_browser = Im Browser ansehen

# Kategorien und Arten
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } Änderung
   *[other] { $count } Änderungen
}
noun_comment = { $count ->
    [one] { $count } Kommentar
   *[other] { $count } Kommentare
}
noun_fix = { $count ->
    [one] { $count } Korrektur
   *[other] { $count } Korrekturen
}
noun_dependency = { $count ->
    [one] { $count } Abhängigkeit
   *[other] { $count } Abhängigkeiten
}
noun_reminder = { $count ->
    [one] { $count } Erinnerung
   *[other] { $count } Erinnerungen
}
noun_share = { $count ->
    [one] { $count } Freigabe
   *[other] { $count } Freigaben
}
noun_outage = { $count ->
    [one] { $count } Ausfall
   *[other] { $count } Ausfälle
}
noun_recovery = { $count ->
    [one] { $count } Wiederherstellung
   *[other] { $count } Wiederherstellungen
}
noun_build_failure = { $count ->
    [one] { $count } fehlgeschlagener Build
   *[other] { $count } fehlgeschlagene Builds
}
noun_disk_warning = { $count ->
    [one] { $count } Warnung zum Speicherplatz
   *[other] { $count } Warnungen zum Speicherplatz
}
noun_area = { $count ->
    [one] { $count } Bereich
   *[other] { $count } Bereiche
}
noun_document = { $count ->
    [one] { $count } Dokument
   *[other] { $count } Dokumente
}
noun_review = { $count ->
    [one] { $count } Prüfung
   *[other] { $count } Prüfungen
}
noun_approval = { $count ->
    [one] { $count } Freigabe
   *[other] { $count } Freigaben
}
noun_page = { $count ->
    [one] { $count } Seite
   *[other] { $count } Seiten
}
noun_service = { $count ->
    [one] { $count } Dienst
   *[other] { $count } Dienste
}
noun_host = { $count } Rechner
noun_pipeline = { $count ->
    [one] { $count } Pipeline
   *[other] { $count } Pipelines
}

# Zahlen
count = { $count } { $name }
count_critical = { $count } kritisch
count_failed = { $count } fehlgeschlagen
count_failures = { $count ->
    [one] { $count } Fehlschlag
   *[other] { $count } Fehlschläge
}
count_errors = { $count } Fehler
count_warnings = { $count ->
    [one] { $count } Warnung
   *[other] { $count } Warnungen
}
count_files = { $count ->
    [one] { $count } Datei
   *[other] { $count } Dateien
}
count_down = { $count } ausgefallen
count_fatal = { $count } fatal
count_degraded = { $count } beeinträchtigt
count_unstable = { $count } instabil
count_flaky = { $count } unzuverlässig
count_skipped = { $count } übersprungen
count_passed = { $count } bestanden
count_resolved = { $count } gelöst
count_recovered = { $count } wiederhergestellt
count_fixed = { $count } behoben

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
day_of_month = Tag im Monat
last_day = Letzter Tag
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
wrong = Es wurde nichts gespeichert: „{ $field }“ ist so nicht möglich. Bitte wählen Sie noch einmal.

# Was als Nächstes kommt
next = Nächste Zusammenfassung: { $when }.
next_then = Nächste Zusammenfassung: { $when }. Danach: { $cadence }.
next_if_new = Nächste Zusammenfassung: { $when }, falls es etwas Neues gibt.
next_at_once = Nächste Zusammenfassung: sobald es etwas Neues gibt.
next_off = Sie bekommen diese Zusammenfassung nicht.
next_paused = Pause. Wieder ab: { $when }.
next_paused_due = Pause. Wieder ab: { $until }. Nächste Zusammenfassung: { $when }.
next_stopped = Der Absender hat diese Zusammenfassung vorerst angehalten. Was neu ist, kommt später.
next_suppressed = An Ihre Adresse wird nichts gesendet, weil Nachrichten zurückkamen oder als Spam gemeldet wurden.
next_never = Diese Zusammenfassung wird nie gesendet.

# Wie oft, als Einträge einer Liste
often_default = Wie üblich: { $cadence }
often_kept = Wie bisher: { $cadence }
often_instant = Sofort, eine E-Mail für jedes Ereignis
often_hourly = Jede Stunde
often_daily = Jeden Tag
often_weekdays = Montag bis Freitag
often_weekly = Jede Woche
often_monthly = Jeden Monat

# Wie oft, nach einem Doppelpunkt
cadence_instant = sofort, eine E-Mail für jedes Ereignis
cadence_after = { $wait } nach einem Ereignis
cadence_sliding = sobald { $wait } lang nichts geschieht; Wartezeit höchstens { $most }
cadence_every_hour = jede Stunde
cadence_hourly = jede Stunde, zur Minute { $minute }
cadence_daily = jeden Tag um { $time }
cadence_weekdays = Montag bis Freitag um { $time }
cadence_days = { $days } um { $time }
days_range = { $first } bis { $last }
cadence_weekly = { $day ->
    [mon] jeden Montag
    [tue] jeden Dienstag
    [wed] jeden Mittwoch
    [thu] jeden Donnerstag
    [fri] jeden Freitag
    [sat] jeden Samstag
   *[sun] jeden Sonntag
} um { $time }
cadence_monthly = { $day ->
    [31] am letzten Tag jedes Monats
   *[other] am { $day }. jedes Monats
} um { $time }
cadence_cron = nach eigenem Zeitplan
cadence_never = nie

# Zeiten
when = { $day }, { $time } ({ $zone })
today = heute, { $date }
tomorrow = morgen, { $date }

# Dauern, im Akkusativ
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
not_found = Dieser Link funktioniert nicht
not_found_text = Vielleicht wurde nur ein Teil davon kopiert. Bitte öffnen Sie ihn in der E-Mail, oder kopieren Sie den ganzen Link.

# Abmelden über den Link einer E-Mail
unsubscribe = Abmelden
unsubscribe_question = Abmelden?
unsubscribe_digest = { $address ->
    [unknown] Sie bekommen keine E-Mails „{ $digest }“ mehr.
   *[other] Sie bekommen keine E-Mails „{ $digest }“ mehr an { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Sie bekommen keine Newsletter und anderen Massensendungen mehr.
   *[other] Sie bekommen keine Newsletter und anderen Massensendungen mehr an { $address }.
}
unsubscribed = Sie sind abgemeldet
unsubscribed_digest = { $address ->
    [unknown] Es werden keine E-Mails „{ $digest }“ mehr gesendet.
   *[other] Es werden keine E-Mails „{ $digest }“ mehr an { $address } gesendet.
}
unsubscribed_bulk = { $address ->
    [unknown] Es werden keine Newsletter und anderen Massensendungen mehr gesendet.
   *[other] Es werden keine Newsletter und anderen Massensendungen mehr an { $address } gesendet.
}
former_name = Unter diesem Namen werden keine E-Mails mehr verschickt. Falls Sie weiterhin welche erhalten, melden Sie sich bitte über den Link in der neuesten ab.
