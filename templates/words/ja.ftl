# 受信者が読む言葉（メッセージとページ）。説明は en.ftl にあります。

# メッセージ
updates = 更新 { $count } 件
alerts = アラート { $count } 件
titled = { $name }：{ $title }
link_label = { $words }：

# 件名
quantity_in = { $entity }：{ $quantity }
in_all = { $what }（全{ $places }）
more_updates = { $what }、ほか更新 { $count } 件
more_alerts = { $what }、ほかアラート { $count } 件
updates_in_digest = ダイジェスト「{ $digest }」に更新 { $count } 件

span = { $from }～{ $to }
latest = 最新：{ $time }
and_others = { $name }、ほか { $count } 人
and_more = ほか { $count } 件
other_section = その他
show_more = ほか { $count } 件の更新を表示

# テンプレート `summary`
more_numbers = { $what }、ほか { $count } 件の数値
rise = { $percent }% 増
fall = { $percent }% 減
steady = 変化なし
before = 前回：{ $value }

# テンプレート `review`
waiting_for_you = { $more ->
    [0] 対応待ち：{ $title }
   *[other] 対応待ち：{ $title }、ほか { $more } 件
}
waiting = { $unit ->
    [days] 待ち時間：{ $count } 日
    [hours] 待ち時間：{ $count } 時間
   *[minutes] 待ち時間：{ $count } 分
}

# フッター
why = ダイジェスト「{ $digest }」が有効になっているため、このメールをお送りしています。
why_named = { $name } 様：ダイジェスト「{ $digest }」が有効になっているため、このメールをお送りしています。
comes = 頻度：{ $cadence }。
times_zone = タイムゾーン：{ $zone }。
change_how_often = 頻度を変更
adapted = しばらく開封されていないため、このメールは現在、週に 1 回お送りしています。
as_before = 以前の頻度に戻す
as_before_text = 「{ $digest }」のメールの頻度：{ $cadence }。
view_in_browser = ブラウザーで表示

# カテゴリと種類
noun = { $name } { $count } 件
noun_change = 変更 { $count } 件
noun_comment = コメント { $count } 件
noun_fix = 修正 { $count } 件
noun_dependency = 依存関係 { $count } 件
noun_reminder = リマインダー { $count } 件
noun_share = 共有 { $count } 件
noun_outage = 障害 { $count } 件
noun_recovery = 復旧 { $count } 件
noun_build_failure = ビルドの失敗 { $count } 件
noun_disk_warning = ディスクの警告 { $count } 件
noun_area = { $count } エリア
noun_document = 文書 { $count } 件
noun_review = レビュー { $count } 件
noun_approval = 承認 { $count } 件
noun_page = { $count } ページ
noun_service = { $count } サービス
noun_host = ホスト { $count } 台
noun_pipeline = パイプライン { $count } 件

# 数
count = { $name } { $count } 件
count_critical = 重大 { $count } 件
count_failed = 失敗 { $count } 件
count_failures = 失敗 { $count } 件
count_errors = エラー { $count } 件
count_warnings = 警告 { $count } 件
count_files = ファイル { $count } 件
count_down = 停止 { $count } 件
count_fatal = 致命的 { $count } 件
count_degraded = 低下 { $count } 件
count_unstable = 不安定 { $count } 件
count_flaky = 断続的 { $count } 件
count_skipped = スキップ { $count } 件
count_passed = 合格 { $count } 件
count_resolved = 解決済み { $count } 件
count_recovered = 復旧 { $count } 件
count_fixed = 修正済み { $count } 件

# 設定のページ
title = メールの設定
title_of = { $sender } からのメールの設定
about = { $address ->
    [unknown] これはあなたの設定です。
   *[other] これは { $address } の設定です。
}
intro = 受け取るダイジェストと、その時期を選んでください。ダイジェストには前回以降の新しい内容がすべて含まれ、新しい内容があるときだけ届きます。
on = このダイジェストを受け取る
how_often = 頻度
day = 曜日
day_of_month = 日
last_day = 末日
time = 時刻
categories = 含める内容
pause = 一時停止の期限
pause_hint = この日より前には何も送信されません。その間の内容は、その後の最初のダイジェストに含まれます。
zone = タイムゾーン
zone_hint = このページの時刻はすべてこのタイムゾーンのものです。
save = 保存
none = ダイジェストをすべて停止
none_hint = このページのダイジェストをすべてオフにします。
undo = 元に戻す
nothing_to_choose = 選べる項目はありません。ダイジェストはもう送信されません。

# 変更の後
saved = 設定を保存しました。
unchanged = 変更はありませんでした。
undone = 変更を元に戻しました。
all_off = 今後、ダイジェストは届きません。
conflict = その間に、おそらく別のウィンドウで設定が変更されました。何も保存されていません。現在の設定は以下のとおりです。
wrong = 保存できませんでした。「{ $field }」の値は使えません。もう一度選んでください。

# 次の予定
next = 次のダイジェスト：{ $when }
next_then = 次のダイジェスト：{ $when }。その後：{ $cadence }
next_if_new = 次のダイジェスト：{ $when }（新しい内容がある場合）
next_at_once = 次のダイジェスト：新しい内容があり次第
next_off = このダイジェストは受け取っていません。
next_paused = 一時停止中。再開：{ $when }
next_paused_due = 一時停止中。再開：{ $until }。次のダイジェスト：{ $when }
next_stopped = 送信者がこのダイジェストを一時的に停止しています。新しい内容は後で届きます。
next_suppressed = メールが戻ってきたか、迷惑メールとして報告されたため、あなたのアドレスには送信されません。
next_never = このダイジェストは送信されません。

# 頻度（一覧の項目）
often_default = 通常どおり：{ $cadence }
often_kept = 現在の設定：{ $cadence }
often_instant = すぐに、イベントごとに 1 通
often_hourly = 毎時
often_daily = 毎日
often_weekdays = 月曜日から金曜日
often_weekly = 毎週
often_monthly = 毎月

# 頻度（コロンの後）
cadence_instant = すぐに、イベントごとに 1 通
cadence_after = イベントの { $wait }後
cadence_sliding = { $wait }の間イベントがないとき、遅くとも { $most }後
cadence_every_hour = 毎時
cadence_hourly = 毎時 { $minute } 分
cadence_daily = 毎日 { $time }
cadence_weekdays = 月曜日から金曜日の { $time }
cadence_days = { $days }の { $time }
days_range = { $first }から{ $last }
cadence_weekly = { $day ->
    [mon] 毎週月曜日
    [tue] 毎週火曜日
    [wed] 毎週水曜日
    [thu] 毎週木曜日
    [fri] 毎週金曜日
    [sat] 毎週土曜日
   *[sun] 毎週日曜日
} { $time }
cadence_monthly = { $day ->
    [31] 毎月末日
   *[other] 毎月 { $day } 日
} { $time }
cadence_cron = 独自のスケジュール
cadence_never = 送信しない

# 時刻
when = { $day } { $time }（{ $zone }）
today = 今日、{ $date }
tomorrow = 明日、{ $date }

# 長さ
seconds = { $count } 秒
minutes = { $count } 分
hours = { $count } 時間
days = { $count } 日

# その他のページ
unavailable = 現在ご利用いただけません
unavailable_text = 1 分ほどしてからもう一度お試しください。
gone = このメッセージはもう保存されていません
gone_text = ブラウザーでメッセージを読める期間には限りがあります。メールそのものには影響ありません。
not_found = このリンクは使えません
not_found_text = 一部だけがコピーされた可能性があります。メールから開くか、リンク全体をコピーしてください。

# メールのリンクによる配信停止
unsubscribe = 配信停止
unsubscribe_question = 配信を停止しますか？
unsubscribe_digest = { $address ->
    [unknown] 今後「{ $digest }」のメールは届きません。
   *[other] 今後「{ $digest }」のメールは { $address } に届きません。
}
unsubscribe_bulk = { $address ->
    [unknown] 今後ニュースレターなどの一斉配信メールは届きません。
   *[other] 今後ニュースレターなどの一斉配信メールは { $address } に届きません。
}
unsubscribed = 配信を停止しました
unsubscribed_digest = { $address ->
    [unknown] 今後「{ $digest }」のメールは送信されません。
   *[other] 今後「{ $digest }」のメールは { $address } に送信されません。
}
unsubscribed_bulk = { $address ->
    [unknown] 今後ニュースレターなどの一斉配信メールは送信されません。
   *[other] 今後ニュースレターなどの一斉配信メールは { $address } に送信されません。
}
former_name = この名前のメールはもう送信されていません。引き続き届く場合は、最新のメールのリンクから配信を停止してください。
