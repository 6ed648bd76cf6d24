# Palavras para os destinatários, em mensagens e páginas. en.ftl as explica.

# Mensagens
updates = { $count ->
    [one] { $count } novidade
   *[other] { $count } novidades
}
alerts = { $count ->
    [one] { $count } alerta
   *[other] { $count } alertas
}
titled = { $name }: { $title }
link_label = { $words }:

# Assunto
quantity_in = { $quantity } em { $entity }
in_all = { $what } ({ $places } no total)
more_updates = { $count ->
    [one] { $what } e mais { $count } novidade
   *[other] { $what } e mais { $count } novidades
}
more_alerts = { $count ->
    [one] { $what } e mais { $count } alerta
   *[other] { $what } e mais { $count } alertas
}
updates_in_digest = { $count ->
    [one] { $count } novidade no seu resumo “{ $digest }”
   *[other] { $count } novidades no seu resumo “{ $digest }”
}

span = { $from } – { $to }
latest = última vez: { $time }
and_others = { $count ->
    [one] { $name } e mais { $count } pessoa
   *[other] { $name } e mais { $count } pessoas
}
and_more = e mais { $count }
other_section = Outros
show_more = { $count ->
    [one] Ver mais { $count } novidade
   *[other] Ver mais { $count } novidades
}

# O modelo `summary`
more_numbers = { $count ->
    [one] { $what } e mais { $count } número
   *[other] { $what } e mais { $count } números
}
rise = { $percent }% a mais
fall = { $percent }% a menos
steady = sem alteração
before = antes: { $value }

# O modelo `review`
waiting_for_you = { $more ->
    [0] Aguardando você: { $title }
   *[other] Aguardando você: { $title } e mais { $more }
}
waiting = { $unit ->
    [days] { $count ->
        [one] aguardando há { $count } dia
       *[other] aguardando há { $count } dias
    }
    [hours] { $count ->
        [one] aguardando há { $count } hora
       *[other] aguardando há { $count } horas
    }
   *[minutes] { $count ->
        [one] aguardando há { $count } minuto
       *[other] aguardando há { $count } minutos
    }
}

# Rodapé
why = Você recebe este e-mail porque o resumo “{ $digest }” está ativado para você.
why_named = { $name }, você recebe este e-mail porque o resumo “{ $digest }” está ativado para você.
comes = Frequência: { $cadence }.
times_zone = Fuso horário: { $zone }.
change_how_often = Alterar a frequência
adapted = Faz algum tempo que você não abre estes e-mails. Por isso, agora eles chegam uma vez por semana.
as_before = Receber com a mesma frequência de antes
as_before_text = Frequência dos e-mails “{ $digest }”: { $cadence }.
view_in_browser = Ver no navegador

# Categorias e tipos
noun = { $count } × { $name }
noun_change = { $count ->
    [one] { $count } alteração
   *[other] { $count } alterações
}
noun_comment = { $count ->
    [one] { $count } comentário
   *[other] { $count } comentários
}
noun_fix = { $count ->
    [one] { $count } correção
   *[other] { $count } correções
}
noun_dependency = { $count ->
    [one] { $count } dependência
   *[other] { $count } dependências
}
noun_reminder = { $count ->
    [one] { $count } lembrete
   *[other] { $count } lembretes
}
noun_share = { $count ->
    [one] { $count } compartilhamento
   *[other] { $count } compartilhamentos
}
noun_outage = { $count ->
    [one] { $count } interrupção
   *[other] { $count } interrupções
}
noun_recovery = { $count ->
    [one] { $count } recuperação
   *[other] { $count } recuperações
}
noun_build_failure = { $count ->
    [one] { $count } falha de build
   *[other] { $count } falhas de build
}
noun_disk_warning = { $count ->
    [one] { $count } aviso de espaço em disco
   *[other] { $count } avisos de espaço em disco
}
noun_area = { $count ->
    [one] { $count } área
   *[other] { $count } áreas
}
noun_document = { $count ->
    [one] { $count } documento
   *[other] { $count } documentos
}
noun_review = { $count ->
    [one] { $count } revisão
   *[other] { $count } revisões
}
noun_approval = { $count ->
    [one] { $count } aprovação
   *[other] { $count } aprovações
}
noun_page = { $count ->
    [one] { $count } página
   *[other] { $count } páginas
}
noun_service = { $count ->
    [one] { $count } serviço
   *[other] { $count } serviços
}
noun_host = { $count ->
    [one] { $count } servidor
   *[other] { $count } servidores
}
noun_pipeline = { $count ->
    [one] { $count } pipeline
   *[other] { $count } pipelines
}

# Quantidades
count = { $count } { $name }
count_critical = { $count ->
    [one] { $count } crítico
   *[other] { $count } críticos
}
count_failed = { $count } com falha
count_failures = { $count ->
    [one] { $count } falha
   *[other] { $count } falhas
}
count_errors = { $count ->
    [one] { $count } erro
   *[other] { $count } erros
}
count_warnings = { $count ->
    [one] { $count } aviso
   *[other] { $count } avisos
}
count_files = { $count ->
    [one] { $count } arquivo
   *[other] { $count } arquivos
}
count_down = { $count } fora do ar
count_fatal = { $count ->
    [one] { $count } fatal
   *[other] { $count } fatais
}
count_degraded = { $count ->
    [one] { $count } degradado
   *[other] { $count } degradados
}
count_unstable = { $count ->
    [one] { $count } instável
   *[other] { $count } instáveis
}
count_flaky = { $count ->
    [one] { $count } intermitente
   *[other] { $count } intermitentes
}
count_skipped = { $count ->
    [one] { $count } ignorado
   *[other] { $count } ignorados
}
count_passed = { $count ->
    [one] { $count } aprovado
   *[other] { $count } aprovados
}
count_resolved = { $count ->
    [one] { $count } resolvido
   *[other] { $count } resolvidos
}
count_recovered = { $count ->
    [one] { $count } recuperado
   *[other] { $count } recuperados
}
count_fixed = { $count ->
    [one] { $count } corrigido
   *[other] { $count } corrigidos
}

# A página de preferências
title = Seus e-mails
title_of = Seus e-mails de { $sender }
about = { $address ->
    [unknown] Estas escolhas são suas.
   *[other] Estas escolhas valem para { $address }.
}
intro = Escolha quais resumos você recebe e quando. Um resumo traz tudo o que é novo desde o anterior e só chega se houver novidades.
on = Enviar-me este resumo
how_often = Frequência
day = Dia
day_of_month = Dia do mês
last_day = Último dia
time = Horário
categories = Conteúdo
pause = Pausa até
pause_hint = Nada é enviado antes desse dia. O que acontecer nesse meio-tempo estará no primeiro resumo seguinte.
zone = Fuso horário
zone_hint = Todos os horários desta página são deste fuso.
save = Salvar
none = Nenhum resumo
none_hint = Desativa todos os resumos desta página.
undo = Desfazer
nothing_to_choose = Não há nada a escolher: nenhum resumo é mais enviado.

# Depois de uma alteração
saved = Suas escolhas foram salvas.
unchanged = Nada foi alterado.
undone = A alteração foi desfeita.
all_off = Você não recebe mais resumos.
conflict = Suas escolhas foram alteradas nesse meio-tempo, talvez em outra janela. Nada foi salvo. Abaixo está o que vale agora.
wrong = Nada foi salvo: o valor de “{ $field }” não é possível. Escolha novamente.

# O que vem a seguir
next = Próximo resumo: { $when }.
next_then = Próximo resumo: { $when }. Depois: { $cadence }.
next_if_new = Próximo resumo: { $when }, se houver novidades.
next_at_once = Próximo resumo: assim que houver novidades.
next_off = Você não recebe este resumo.
next_paused = Em pausa. Retorna: { $when }.
next_paused_due = Em pausa. Retorna: { $until }. Próximo resumo: { $when }.
next_stopped = O remetente suspendeu este resumo por enquanto. As novidades chegarão mais tarde.
next_suppressed = Nada é enviado ao seu endereço, porque mensagens voltaram ou foram marcadas como spam.
next_never = Este resumo nunca é enviado.

# Frequência, em uma lista
often_default = Como de costume: { $cadence }
often_kept = Como agora: { $cadence }
often_instant = Na hora, um e-mail por evento
often_hourly = A cada hora
often_daily = Todos os dias
often_weekdays = De segunda a sexta
often_weekly = Toda semana
often_monthly = Todo mês

# Frequência, depois de dois-pontos
cadence_instant = na hora, um e-mail por evento
cadence_after = { $wait } depois de um evento
cadence_sliding = após { $wait } sem novidades e, no máximo, após { $most }
cadence_every_hour = a cada hora
cadence_hourly = a cada hora, no minuto { $minute }
cadence_daily = todos os dias às { $time }
cadence_weekdays = de segunda a sexta às { $time }
cadence_days = { $days } às { $time }
days_range = de { $first } a { $last }
cadence_weekly = { $day ->
    [mon] toda segunda-feira
    [tue] toda terça-feira
    [wed] toda quarta-feira
    [thu] toda quinta-feira
    [fri] toda sexta-feira
    [sat] todo sábado
   *[sun] todo domingo
} às { $time }
cadence_monthly = { $day ->
    [31] no último dia de cada mês
   *[other] no dia { $day } de cada mês
} às { $time }
cadence_cron = segundo um calendário próprio
cadence_never = nunca

# Horários
when = { $day }, { $time } ({ $zone })
today = hoje, { $date }
tomorrow = amanhã, { $date }

# Durações
seconds = { $count ->
    [one] { $count } segundo
   *[other] { $count } segundos
}
minutes = { $count ->
    [one] { $count } minuto
   *[other] { $count } minutos
}
hours = { $count ->
    [one] { $count } hora
   *[other] { $count } horas
}
days = { $count ->
    [one] { $count } dia
   *[other] { $count } dias
}

# Outras páginas
unavailable = Não é possível no momento
unavailable_text = Tente novamente em um minuto.
gone = Esta mensagem não está mais guardada
gone_text = As mensagens só podem ser lidas no navegador por um tempo limitado. O próprio e-mail não é afetado.
not_found = Este link não funciona
not_found_text = Talvez só uma parte dele tenha sido copiada. Abra-o pelo e-mail ou copie o link inteiro.

# Cancelar a inscrição pelo link de um e-mail
unsubscribe = Cancelar inscrição
unsubscribe_question = Cancelar a inscrição?
unsubscribe_digest = { $address ->
    [unknown] Você não receberá mais e-mails “{ $digest }”.
   *[other] Você não receberá mais e-mails “{ $digest }” em { $address }.
}
unsubscribe_bulk = { $address ->
    [unknown] Você não receberá mais boletins nem outros envios em massa.
   *[other] Você não receberá mais boletins nem outros envios em massa em { $address }.
}
unsubscribed = Inscrição cancelada
unsubscribed_digest = { $address ->
    [unknown] Nenhum e-mail “{ $digest }” será mais enviado.
   *[other] Nenhum e-mail “{ $digest }” será mais enviado para { $address }.
}
unsubscribed_bulk = { $address ->
    [unknown] Nenhum boletim nem outro envio em massa será mais enviado.
   *[other] Nenhum boletim nem outro envio em massa será mais enviado para { $address }.
}
former_name = Não são mais enviados e-mails com este nome. Se você ainda receber algum, cancele a inscrição pelo link do mais recente.
