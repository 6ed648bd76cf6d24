# Ord för mottagare, i meddelanden och på sidor. en.ftl förklarar dem.

# Meddelanden
updates = { $count ->
    [one] { $count } nyhet
   *[other] { $count } nyheter
}
alerts = { $count } larm
titled = { $name }: { $title }
link_label = { $words }:

# Ämne
quantity_in = { $quantity } i { $entity }
in_all = { $what } ({ $places } totalt)
more_updates = { $count ->
    [one] { $what } och { $count } nyhet till
   *[other] { $what } och { $count } nyheter till
}
more_alerts = { $what } och { $count } larm till
updates_in_digest = { $count ->
    [one] { $count } nyhet i din sammanfattning ”{ $digest }”
   *[other] { $count } nyheter i din sammanfattning ”{ $digest }”
}

span = { $from } – { $to }
latest = senast { $time }
and_others = { $name } och { $count } till
and_more = och { $count } till
other_section = Övrigt
show_more = { $count ->
    [one] Visa { $count } nyhet till
   *[other] Visa { $count } nyheter till
}

# Mallen `summary`
more_numbers = { $count ->
    [one] { $what } och { $count } siffra till
   *[other] { $what } och { $count } siffror till
}
rise = { $percent } % mer
fall = { $percent } % mindre
steady = oförändrat
before = tidigare: { $value }

# Mallen `review`
waiting_for_you = { $more ->
    [0] Väntar på dig: { $title }
   *[other] Väntar på dig: { $title } och { $more } till
}
waiting = { $unit ->
    [days] { $count ->
        [one] har väntat i { $count } dag
       *[other] har väntat i { $count } dagar
    }
    [hours] { $count ->
        [one] har väntat i { $count } timme
       *[other] har väntat i { $count } timmar
    }
   *[minutes] { $count ->
        [one] har väntat i { $count } minut
       *[other] har väntat i { $count } minuter
    }
}

# Sidfot
why = Du får det här mejlet eftersom sammanfattningen ”{ $digest }” är på för dig.
why_named = { $name }, du får det här mejlet eftersom sammanfattningen ”{ $digest }” är på för dig.
comes = Hur ofta: { $cadence }.
times_zone = Tidszon: { $zone }.
change_how_often = Ändra hur ofta
adapted = Du har inte öppnat de här mejlen på ett tag, så nu kommer de en gång i veckan.
as_before = Få dem lika ofta som förut
as_before_text = Så ofta kommer mejlen ”{ $digest }”: { $cadence }.
view_in_browser = Visa i webbläsaren

# Kategorier och typer
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } ändring
   *[other] { $count } ändringar
}
noun_comment = { $count ->
    [one] { $count } kommentar
   *[other] { $count } kommentarer
}
noun_fix = { $count ->
    [one] { $count } rättelse
   *[other] { $count } rättelser
}
noun_dependency = { $count ->
    [one] { $count } beroende
   *[other] { $count } beroenden
}
noun_reminder = { $count ->
    [one] { $count } påminnelse
   *[other] { $count } påminnelser
}
noun_share = { $count ->
    [one] { $count } delning
   *[other] { $count } delningar
}
noun_outage = { $count } avbrott
noun_recovery = { $count ->
    [one] { $count } återställning
   *[other] { $count } återställningar
}
noun_build_failure = { $count ->
    [one] { $count } misslyckat bygge
   *[other] { $count } misslyckade byggen
}
noun_disk_warning = { $count ->
    [one] { $count } varning om diskutrymme
   *[other] { $count } varningar om diskutrymme
}
noun_area = { $count ->
    [one] { $count } område
   *[other] { $count } områden
}
noun_document = { $count } dokument
noun_review = { $count ->
    [one] { $count } granskning
   *[other] { $count } granskningar
}
noun_approval = { $count ->
    [one] { $count } godkännande
   *[other] { $count } godkännanden
}
noun_page = { $count ->
    [one] { $count } sida
   *[other] { $count } sidor
}
noun_service = { $count ->
    [one] { $count } tjänst
   *[other] { $count } tjänster
}
noun_host = { $count ->
    [one] { $count } värd
   *[other] { $count } värdar
}
noun_pipeline = { $count ->
    [one] { $count } pipeline
   *[other] { $count } pipelines
}

# Antal
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } kritisk
   *[other] { $count } kritiska
}
count_failed = { $count ->
    [one] { $count } misslyckad
   *[other] { $count } misslyckade
}
count_failures = { $count ->
    [one] { $count } misslyckande
   *[other] { $count } misslyckanden
}
count_errors = { $count } fel
count_warnings = { $count ->
    [one] { $count } varning
   *[other] { $count } varningar
}
count_files = { $count ->
    [one] { $count } fil
   *[other] { $count } filer
}
count_down = { $count } nere
count_fatal = { $count ->
    [one] { $count } allvarlig
   *[other] { $count } allvarliga
}
count_degraded = { $count ->
    [one] { $count } försämrad
   *[other] { $count } försämrade
}
count_unstable = { $count ->
    [one] { $count } instabil
   *[other] { $count } instabila
}
count_flaky = { $count ->
    [one] { $count } opålitlig
   *[other] { $count } opålitliga
}
count_skipped = { $count ->
    [one] { $count } överhoppad
   *[other] { $count } överhoppade
}
count_passed = { $count ->
    [one] { $count } godkänd
   *[other] { $count } godkända
}
count_resolved = { $count ->
    [one] { $count } löst
   *[other] { $count } lösta
}
count_recovered = { $count ->
    [one] { $count } återställd
   *[other] { $count } återställda
}
count_fixed = { $count ->
    [one] { $count } åtgärdad
   *[other] { $count } åtgärdade
}

# Sidan med inställningar
title = Dina mejl
title_of = Dina mejl från { $sender }
about = { $address ->
    [unknown] De här valen gäller dig.
   *[other] De här valen gäller { $address }.
}
intro = Välj vilka sammanfattningar du får, och när. En sammanfattning innehåller allt nytt sedan den förra och kommer bara om det finns något nytt.
on = Skicka den här sammanfattningen till mig
how_often = Hur ofta
day = Dag
day_of_month = Dag i månaden
last_day = Sista dagen
time = Tid
categories = Innehåll
pause = Pausa till
pause_hint = Inget skickas före den här dagen. Det som händer under tiden finns i den första sammanfattningen därefter.
zone = Tidszon
zone_hint = Alla tider på den här sidan gäller i den här tidszonen.
save = Spara
none = Inga sammanfattningar alls
none_hint = Stänger av alla sammanfattningar på den här sidan.
undo = Ångra
nothing_to_choose = Det finns inget att välja: inga sammanfattningar skickas längre.

# Efter en ändring
saved = Dina val är sparade.
unchanged = Inget ändrades.
undone = Ändringen är ångrad.
all_off = Du får inga fler sammanfattningar.
conflict = Dina val ändrades under tiden, kanske i ett annat fönster. Inget sparades. Nedan står vad som gäller nu.
wrong = Inget sparades: värdet för ”{ $field }” är inte möjligt. Välj igen.

# Vad som kommer härnäst
next = Nästa sammanfattning: { $when }.
next_then = Nästa sammanfattning: { $when }. Därefter: { $cadence }.
next_if_new = Nästa sammanfattning: { $when }, om det finns något nytt.
next_at_once = Nästa sammanfattning: så snart det finns något nytt.
next_off = Du får inte den här sammanfattningen.
next_paused = Pausad. Börjar igen: { $when }.
next_paused_due = Pausad. Börjar igen: { $until }. Nästa sammanfattning: { $when }.
next_stopped = Avsändaren har stoppat den här sammanfattningen tills vidare. Det som är nytt kommer senare.
next_suppressed = Inget skickas till din adress, eftersom meddelanden kom tillbaka eller anmäldes som skräppost.
next_never = Den här sammanfattningen skickas aldrig.

# Hur ofta, i en lista
often_default = Som vanligt: { $cadence }
often_kept = Som nu: { $cadence }
often_instant = Genast, ett mejl per händelse
often_hourly = Varje timme
often_daily = Varje dag
often_weekdays = Måndag till fredag
often_weekly = Varje vecka
often_monthly = Varje månad

# Hur ofta, efter ett kolon
cadence_instant = genast, ett mejl per händelse
cadence_after = { $wait } efter en händelse
cadence_sliding = efter { $wait } utan händelser, och senast efter { $most }
cadence_every_hour = varje timme
cadence_hourly = varje timme, minut { $minute }
cadence_daily = varje dag kl. { $time }
cadence_weekdays = måndag till fredag kl. { $time }
cadence_days = { $days } kl. { $time }
days_range = { $first } till { $last }
cadence_weekly = { $day ->
    [mon] varje måndag
    [tue] varje tisdag
    [wed] varje onsdag
    [thu] varje torsdag
    [fri] varje fredag
    [sat] varje lördag
   *[sun] varje söndag
} kl. { $time }
cadence_monthly = { $day ->
    [31] sista dagen i varje månad
   *[other] dag { $day } i varje månad
} kl. { $time }
cadence_cron = enligt ett eget schema
cadence_never = aldrig

# Tider
when = { $day }, { $time } ({ $zone })
today = i dag, { $date }
tomorrow = i morgon, { $date }

# Tidslängder
seconds = { $count ->
    [one] { $count } sekund
   *[other] { $count } sekunder
}
minutes = { $count ->
    [one] { $count } minut
   *[other] { $count } minuter
}
hours = { $count ->
    [one] { $count } timme
   *[other] { $count } timmar
}
days = { $count ->
    [one] { $count } dag
   *[other] { $count } dagar
}

# Andra sidor
unavailable = Det här fungerar inte just nu
unavailable_text = Försök igen om en minut.
gone = Det här meddelandet sparas inte längre
gone_text = Meddelanden kan bara läsas i webbläsaren under en begränsad tid. Själva mejlet påverkas inte.
not_found = Länken fungerar inte
not_found_text = Kanske kopierades bara en del av den. Öppna länken i mejlet eller kopiera hela länken.

# Avregistrering via länken i ett mejl
unsubscribe = Avsluta prenumeration
unsubscribe_question = Avsluta prenumerationen?
unsubscribe_digest = { $address ->
    [unknown] Du får inga fler mejl ”{ $digest }”.
   *[other] Du får inga fler mejl ”{ $digest }” till { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Du får inga fler nyhetsbrev eller andra massutskick.
   *[other] Du får inga fler nyhetsbrev eller andra massutskick till { $address }.
}
unsubscribed = Prenumerationen är avslutad
unsubscribed_digest = { $address ->
    [unknown] Inga fler mejl ”{ $digest }” skickas.
   *[other] Inga fler mejl ”{ $digest }” skickas till { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Inga fler nyhetsbrev eller andra massutskick skickas.
   *[other] Inga fler nyhetsbrev eller andra massutskick skickas till { $address }.
}
former_name = Inga mejl skickas längre under det här namnet. Om du fortfarande får några, avsluta prenumerationen med länken i det senaste.
