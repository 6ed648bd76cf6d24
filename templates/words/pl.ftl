# Słowa dla odbiorców, w wiadomościach i na stronach. Objaśnia je en.ftl.

# Wiadomości
updates = { $count ->
    [one] { $count } nowość
    [few] { $count } nowości
    [many] { $count } nowości
   *[other] { $count } nowości
}
alerts = { $count ->
    [one] { $count } alert
    [few] { $count } alerty
    [many] { $count } alertów
   *[other] { $count } alertu
}
titled = { $name }: { $title }
link_label = { $words }:

# Temat
quantity_in = { $entity }: { $quantity }
in_all = { $what } (łącznie { $places })
more_updates = { $count ->
    [one] { $what } i jeszcze { $count } nowość
    [few] { $what } i jeszcze { $count } nowości
    [many] { $what } i jeszcze { $count } nowości
   *[other] { $what } i jeszcze { $count } nowości
}
more_alerts = { $count ->
    [one] { $what } i jeszcze { $count } alert
    [few] { $what } i jeszcze { $count } alerty
    [many] { $what } i jeszcze { $count } alertów
   *[other] { $what } i jeszcze { $count } alertu
}
updates_in_digest = { $count ->
    [one] { $count } nowość w Twoim podsumowaniu „{ $digest }”
    [few] { $count } nowości w Twoim podsumowaniu „{ $digest }”
    [many] { $count } nowości w Twoim podsumowaniu „{ $digest }”
   *[other] { $count } nowości w Twoim podsumowaniu „{ $digest }”
}

span = { $from } – { $to }
latest = ostatnio: { $time }
and_others = { $count ->
    [one] { $name } i { $count } inna osoba
    [few] { $name } i { $count } inne osoby
    [many] { $name } i { $count } innych osób
   *[other] { $name } i { $count } innej osoby
}
and_more = i jeszcze { $count }
other_section = Inne
show_more = { $count ->
    [one] Pokaż jeszcze { $count } nowość
    [few] Pokaż jeszcze { $count } nowości
    [many] Pokaż jeszcze { $count } nowości
   *[other] Pokaż jeszcze { $count } nowości
}

# Szablon `summary`
more_numbers = { $count ->
    [one] { $what } i jeszcze { $count } liczba
    [few] { $what } i jeszcze { $count } liczby
    [many] { $what } i jeszcze { $count } liczb
   *[other] { $what } i jeszcze { $count } liczby
}
rise = o { $percent }% więcej
fall = o { $percent }% mniej
steady = bez zmian
before = wcześniej: { $value }

# Szablon `review`
waiting_for_you = { $more ->
    [0] Czeka na Ciebie: { $title }
   *[other] Czeka na Ciebie: { $title } i jeszcze { $more }
}
waiting = { $unit ->
    [days] { $count ->
        [one] czeka od { $count } dnia
        [few] czeka od { $count } dni
        [many] czeka od { $count } dni
       *[other] czeka od { $count } dnia
    }
    [hours] { $count ->
        [one] czeka od { $count } godziny
        [few] czeka od { $count } godzin
        [many] czeka od { $count } godzin
       *[other] czeka od { $count } godziny
    }
   *[minutes] { $count ->
        [one] czeka od { $count } minuty
        [few] czeka od { $count } minut
        [many] czeka od { $count } minut
       *[other] czeka od { $count } minuty
    }
}

# Stopka
why = Otrzymujesz tę wiadomość, ponieważ podsumowanie „{ $digest }” jest dla Ciebie włączone.
why_named = { $name }, otrzymujesz tę wiadomość, ponieważ podsumowanie „{ $digest }” jest dla Ciebie włączone.
comes = Jak często: { $cadence }.
times_zone = Strefa czasowa: { $zone }.
change_how_often = Zmień częstotliwość
adapted = Od jakiegoś czasu nie otwierasz tych wiadomości, dlatego przychodzą teraz raz w tygodniu.
as_before = Otrzymuj je tak często jak wcześniej
as_before_text = Jak często przychodzą wiadomości „{ $digest }”: { $cadence }.
view_in_browser = Wyświetl w przeglądarce

# Kategorie i rodzaje
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } zmiana
    [few] { $count } zmiany
    [many] { $count } zmian
   *[other] { $count } zmiany
}
noun_comment = { $count ->
    [one] { $count } komentarz
    [few] { $count } komentarze
    [many] { $count } komentarzy
   *[other] { $count } komentarza
}
noun_fix = { $count ->
    [one] { $count } poprawka
    [few] { $count } poprawki
    [many] { $count } poprawek
   *[other] { $count } poprawki
}
noun_dependency = { $count ->
    [one] { $count } zależność
    [few] { $count } zależności
    [many] { $count } zależności
   *[other] { $count } zależności
}
noun_reminder = { $count ->
    [one] { $count } przypomnienie
    [few] { $count } przypomnienia
    [many] { $count } przypomnień
   *[other] { $count } przypomnienia
}
noun_share = { $count ->
    [one] { $count } udostępnienie
    [few] { $count } udostępnienia
    [many] { $count } udostępnień
   *[other] { $count } udostępnienia
}
noun_outage = { $count ->
    [one] { $count } awaria
    [few] { $count } awarie
    [many] { $count } awarii
   *[other] { $count } awarii
}
noun_recovery = { $count ->
    [one] { $count } przywrócenie
    [few] { $count } przywrócenia
    [many] { $count } przywróceń
   *[other] { $count } przywrócenia
}
noun_build_failure = { $count ->
    [one] { $count } nieudana kompilacja
    [few] { $count } nieudane kompilacje
    [many] { $count } nieudanych kompilacji
   *[other] { $count } nieudanej kompilacji
}
noun_disk_warning = { $count ->
    [one] { $count } ostrzeżenie o miejscu na dysku
    [few] { $count } ostrzeżenia o miejscu na dysku
    [many] { $count } ostrzeżeń o miejscu na dysku
   *[other] { $count } ostrzeżenia o miejscu na dysku
}
noun_area = { $count ->
    [one] { $count } obszar
    [few] { $count } obszary
    [many] { $count } obszarów
   *[other] { $count } obszaru
}
noun_document = { $count ->
    [one] { $count } dokument
    [few] { $count } dokumenty
    [many] { $count } dokumentów
   *[other] { $count } dokumentu
}
noun_review = { $count ->
    [one] { $count } przegląd
    [few] { $count } przeglądy
    [many] { $count } przeglądów
   *[other] { $count } przeglądu
}
noun_approval = { $count ->
    [one] { $count } zatwierdzenie
    [few] { $count } zatwierdzenia
    [many] { $count } zatwierdzeń
   *[other] { $count } zatwierdzenia
}
noun_page = { $count ->
    [one] { $count } strona
    [few] { $count } strony
    [many] { $count } stron
   *[other] { $count } strony
}
noun_service = { $count ->
    [one] { $count } usługa
    [few] { $count } usługi
    [many] { $count } usług
   *[other] { $count } usługi
}
noun_host = { $count ->
    [one] { $count } host
    [few] { $count } hosty
    [many] { $count } hostów
   *[other] { $count } hosta
}
noun_pipeline = { $count ->
    [one] { $count } potok
    [few] { $count } potoki
    [many] { $count } potoków
   *[other] { $count } potoku
}

# Liczby
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } krytyczny
    [few] { $count } krytyczne
    [many] { $count } krytycznych
   *[other] { $count } krytycznego
}
count_failed = { $count ->
    [one] { $count } nieudany
    [few] { $count } nieudane
    [many] { $count } nieudanych
   *[other] { $count } nieudanego
}
count_failures = { $count ->
    [one] { $count } niepowodzenie
    [few] { $count } niepowodzenia
    [many] { $count } niepowodzeń
   *[other] { $count } niepowodzenia
}
count_errors = { $count ->
    [one] { $count } błąd
    [few] { $count } błędy
    [many] { $count } błędów
   *[other] { $count } błędu
}
count_warnings = { $count ->
    [one] { $count } ostrzeżenie
    [few] { $count } ostrzeżenia
    [many] { $count } ostrzeżeń
   *[other] { $count } ostrzeżenia
}
count_files = { $count ->
    [one] { $count } plik
    [few] { $count } pliki
    [many] { $count } plików
   *[other] { $count } pliku
}
count_down = { $count ->
    [one] { $count } niedostępny
    [few] { $count } niedostępne
    [many] { $count } niedostępnych
   *[other] { $count } niedostępnego
}
count_fatal = { $count ->
    [one] { $count } fatalny
    [few] { $count } fatalne
    [many] { $count } fatalnych
   *[other] { $count } fatalnego
}
count_degraded = { $count ->
    [one] { $count } ograniczony
    [few] { $count } ograniczone
    [many] { $count } ograniczonych
   *[other] { $count } ograniczonego
}
count_unstable = { $count ->
    [one] { $count } niestabilny
    [few] { $count } niestabilne
    [many] { $count } niestabilnych
   *[other] { $count } niestabilnego
}
count_flaky = { $count ->
    [one] { $count } zawodny
    [few] { $count } zawodne
    [many] { $count } zawodnych
   *[other] { $count } zawodnego
}
count_skipped = { $count ->
    [one] { $count } pominięty
    [few] { $count } pominięte
    [many] { $count } pominiętych
   *[other] { $count } pominiętego
}
count_passed = { $count ->
    [one] { $count } zaliczony
    [few] { $count } zaliczone
    [many] { $count } zaliczonych
   *[other] { $count } zaliczonego
}
count_resolved = { $count ->
    [one] { $count } rozwiązany
    [few] { $count } rozwiązane
    [many] { $count } rozwiązanych
   *[other] { $count } rozwiązanego
}
count_recovered = { $count ->
    [one] { $count } przywrócony
    [few] { $count } przywrócone
    [many] { $count } przywróconych
   *[other] { $count } przywróconego
}
count_fixed = { $count ->
    [one] { $count } naprawiony
    [few] { $count } naprawione
    [many] { $count } naprawionych
   *[other] { $count } naprawionego
}

# Strona ustawień
title = Twoje e-maile
title_of = Twoje e-maile – { $sender }
about = { $address ->
    [unknown] Te ustawienia dotyczą Ciebie.
   *[other] Te ustawienia dotyczą adresu { $address }.
}
intro = Wybierz, które podsumowania otrzymujesz i kiedy. Podsumowanie zawiera wszystko, co nowe od poprzedniego, i przychodzi tylko wtedy, gdy jest coś nowego.
on = Wysyłaj mi to podsumowanie
how_often = Jak często
day = Dzień
day_of_month = Dzień miesiąca
last_day = Ostatni dzień
time = Godzina
categories = Zawartość
pause = Wstrzymaj do
pause_hint = Przed tym dniem nic nie zostanie wysłane. To, co wydarzy się w międzyczasie, znajdzie się w pierwszym późniejszym podsumowaniu.
zone = Strefa czasowa
zone_hint = Wszystkie godziny na tej stronie są podane w tej strefie.
save = Zapisz
none = Żadnych podsumowań
none_hint = Wyłącza wszystkie podsumowania na tej stronie.
undo = Cofnij
nothing_to_choose = Nie ma nic do wyboru: podsumowania nie są już wysyłane.

# Po zmianie
saved = Ustawienia zostały zapisane.
unchanged = Nic nie zmieniono.
undone = Zmiana została cofnięta.
all_off = Nie otrzymujesz już podsumowań.
conflict = Ustawienia zmieniono w międzyczasie, być może w innym oknie. Nic nie zapisano. Poniżej widać, co teraz obowiązuje.
wrong = Nic nie zapisano: wartość pola „{ $field }” jest niemożliwa. Wybierz ponownie.

# Co będzie dalej
next = Następne podsumowanie: { $when }.
next_then = Następne podsumowanie: { $when }. Potem: { $cadence }.
next_if_new = Następne podsumowanie: { $when }, jeśli będzie coś nowego.
next_at_once = Następne podsumowanie: gdy tylko pojawi się coś nowego.
next_off = Nie otrzymujesz tego podsumowania.
next_paused = Wstrzymano. Wznowienie: { $when }.
next_paused_due = Wstrzymano. Wznowienie: { $until }. Następne podsumowanie: { $when }.
next_stopped = Nadawca na razie wstrzymał to podsumowanie. Nowości przyjdą później.
next_suppressed = Na Twój adres nic nie jest wysyłane, ponieważ wiadomości wracały lub zgłoszono je jako spam.
next_never = To podsumowanie nigdy nie jest wysyłane.

# Jak często, na liście
often_default = Jak zwykle: { $cadence }
often_kept = Jak teraz: { $cadence }
often_instant = Od razu, jeden e-mail na każde zdarzenie
often_hourly = Co godzinę
often_daily = Codziennie
often_weekdays = Od poniedziałku do piątku
often_weekly = Co tydzień
often_monthly = Co miesiąc

# Jak często, po dwukropku
cadence_instant = od razu, jeden e-mail na każde zdarzenie
cadence_after = { $wait } po zdarzeniu
cadence_sliding = gdy przez { $wait } nic się nie dzieje, czekając najwyżej { $most }
cadence_every_hour = co godzinę
cadence_hourly = co godzinę, w minucie { $minute }
cadence_daily = codziennie o { $time }
cadence_weekdays = od poniedziałku do piątku o { $time }
cadence_days = { $days } o { $time }
days_range = { $first }–{ $last }
cadence_weekly = { $day ->
    [mon] w każdy poniedziałek
    [tue] w każdy wtorek
    [wed] w każdą środę
    [thu] w każdy czwartek
    [fri] w każdy piątek
    [sat] w każdą sobotę
   *[sun] w każdą niedzielę
} o { $time }
cadence_monthly = { $day ->
    [31] ostatniego dnia każdego miesiąca
   *[other] { $day }. dnia każdego miesiąca
} o { $time }
cadence_cron = według własnego harmonogramu
cadence_never = nigdy

# Czas
when = { $day }, { $time } ({ $zone })
today = dzisiaj, { $date }
tomorrow = jutro, { $date }

# Czas trwania, w bierniku
seconds = { $count ->
    [one] { $count } sekundę
    [few] { $count } sekundy
    [many] { $count } sekund
   *[other] { $count } sekundy
}
minutes = { $count ->
    [one] { $count } minutę
    [few] { $count } minuty
    [many] { $count } minut
   *[other] { $count } minuty
}
hours = { $count ->
    [one] { $count } godzinę
    [few] { $count } godziny
    [many] { $count } godzin
   *[other] { $count } godziny
}
days = { $count ->
    [one] { $count } dzień
    [few] { $count } dni
    [many] { $count } dni
   *[other] { $count } dnia
}

# Inne strony
unavailable = To w tej chwili nie działa
unavailable_text = Spróbuj ponownie za minutę.
gone = Ta wiadomość nie jest już przechowywana
gone_text = Wiadomości można czytać w przeglądarce tylko przez ograniczony czas. Samego e-maila to nie dotyczy.
not_found = Ten link nie działa
not_found_text = Być może skopiowano tylko jego część. Otwórz go z e-maila lub skopiuj cały link.

# Rezygnacja przez link w e-mailu
unsubscribe = Zrezygnuj z subskrypcji
unsubscribe_question = Zrezygnować z subskrypcji?
unsubscribe_digest = { $address ->
    [unknown] Nie będziesz już otrzymywać e-maili „{ $digest }”.
   *[other] Nie będziesz już otrzymywać e-maili „{ $digest }” na adres { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Nie będziesz już otrzymywać newsletterów ani innych masowych wiadomości.
   *[other] Nie będziesz już otrzymywać newsletterów ani innych masowych wiadomości na adres { $address }.
}
unsubscribed = Subskrypcja zakończona
unsubscribed_digest = { $address ->
    [unknown] E-maile „{ $digest }” nie będą już wysyłane.
   *[other] E-maile „{ $digest }” nie będą już wysyłane na adres { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Newslettery i inne masowe wiadomości nie będą już wysyłane.
   *[other] Newslettery i inne masowe wiadomości nie będą już wysyłane na adres { $address }.
}
former_name = Pod tą nazwą nie są już wysyłane e-maile. Jeśli nadal przychodzą, zrezygnuj za pomocą linku w najnowszym.
