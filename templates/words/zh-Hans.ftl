# 收件人在邮件和页面中读到的文字。说明见 en.ftl。

# 邮件
updates = { $count } 条更新
alerts = { $count } 条告警
titled = { $name }：{ $title }
link_label = { $words }：

# 主题
quantity_in = { $entity }：{ $quantity }
in_all = { $what }（共 { $places }）
more_updates = { $what }，另有 { $count } 条更新
more_alerts = { $what }，另有 { $count } 条告警
updates_in_digest = 您的摘要“{ $digest }”中有 { $count } 条更新

span = { $from } 至 { $to }
latest = 最近：{ $time }
and_others = { $name } 和另外 { $count } 人
and_more = 还有 { $count } 条
other_section = 其他
show_more = 查看另外 { $count } 条更新

# 模板 `summary`
more_numbers = { $what }，另有 { $count } 项数据
rise = 增加 { $percent }%
fall = 减少 { $percent }%
steady = 无变化
before = 此前：{ $value }

# 模板 `review`
waiting_for_you = { $more ->
    [0] 等待您处理：{ $title }
   *[other] 等待您处理：{ $title }，另有 { $more } 项
}
waiting = { $unit ->
    [days] 已等待 { $count } 天
    [hours] 已等待 { $count } 小时
   *[minutes] 已等待 { $count } 分钟
}

# 页脚
why = 您收到此邮件，是因为已为您开启摘要“{ $digest }”。
why_named = { $name }，您收到此邮件，是因为已为您开启摘要“{ $digest }”。
comes = 频率：{ $cadence }。
times_zone = 时区：{ $zone }。
change_how_often = 更改频率
adapted = 您已有一段时间没有打开这些邮件，因此现在每周发送一次。
as_before = 恢复之前的发送频率
as_before_text = “{ $digest }”邮件的频率：{ $cadence }。
view_in_browser = 在浏览器中查看

# 类别和类型
noun = { $count } × { $name }
noun_change = { $count } 项更改
noun_comment = { $count } 条评论
noun_fix = { $count } 项修复
noun_dependency = { $count } 项依赖
noun_reminder = { $count } 条提醒
noun_share = { $count } 次共享
noun_outage = { $count } 次故障
noun_recovery = { $count } 次恢复
noun_build_failure = { $count } 次构建失败
noun_disk_warning = { $count } 条磁盘警告
noun_area = { $count } 个区域
noun_document = { $count } 个文档
noun_review = { $count } 项评审
noun_approval = { $count } 项审批
noun_page = { $count } 个页面
noun_service = { $count } 个服务
noun_host = { $count } 台主机
noun_pipeline = { $count } 条流水线

# 数量
count = { $count } { $name }
count_critical = { $count } 项严重
count_failed = { $count } 项失败
count_failures = { $count } 次失败
count_errors = { $count } 个错误
count_warnings = { $count } 条警告
count_files = { $count } 个文件
count_down = { $count } 项中断
count_fatal = { $count } 项致命
count_degraded = { $count } 项降级
count_unstable = { $count } 项不稳定
count_flaky = { $count } 项时好时坏
count_skipped = { $count } 项已跳过
count_passed = { $count } 项通过
count_resolved = { $count } 项已解决
count_recovered = { $count } 项已恢复
count_fixed = { $count } 项已修复

# 偏好设置页面
title = 您的邮件
title_of = 来自 { $sender } 的邮件
about = { $address ->
    [unknown] 这些是您的设置。
   *[other] 这些设置适用于 { $address }。
}
intro = 请选择接收哪些摘要以及何时接收。摘要包含自上一次以来的所有新内容，只有在有新内容时才会发送。
on = 向我发送此摘要
how_often = 频率
day = 星期
day_of_month = 日期
last_day = 最后一天
time = 时间
categories = 包含的内容
pause = 暂停至
pause_hint = 在此日期之前不会发送任何内容。期间发生的事情会出现在之后的第一份摘要中。
zone = 时区
zone_hint = 此页面上的所有时间均为该时区的时间。
save = 保存
none = 不接收任何摘要
none_hint = 关闭此页面上的所有摘要。
undo = 撤消
nothing_to_choose = 没有可选择的内容：不再发送任何摘要。

# 更改之后
saved = 您的设置已保存。
unchanged = 没有任何更改。
undone = 更改已撤消。
all_off = 您将不再收到摘要。
conflict = 在此期间，您的设置已被更改，可能是在另一个窗口中。没有保存任何内容。下面是当前有效的设置。
wrong = 没有保存任何内容：“{ $field }”的值无效。请重新选择。

# 接下来
next = 下一份摘要：{ $when }。
next_then = 下一份摘要：{ $when }。此后：{ $cadence }。
next_if_new = 下一份摘要：{ $when }（如果有新内容）。
next_at_once = 下一份摘要：一有新内容即发送。
next_off = 您不会收到此摘要。
next_paused = 已暂停。恢复时间：{ $when }。
next_paused_due = 已暂停。恢复时间：{ $until }。下一份摘要：{ $when }。
next_stopped = 发件人暂时停止了此摘要。新内容将稍后发送。
next_suppressed = 由于邮件被退回或被举报为垃圾邮件，不会向您的地址发送任何内容。
next_never = 此摘要从不发送。

# 频率（列表项）
often_default = 默认：{ $cadence }
often_kept = 保持现状：{ $cadence }
often_instant = 立即，每个事件一封邮件
often_hourly = 每小时
often_daily = 每天
often_weekdays = 周一至周五
often_weekly = 每周
often_monthly = 每月

# 频率（冒号之后）
cadence_instant = 立即，每个事件一封邮件
cadence_after = 事件发生 { $wait }后
cadence_sliding = 静默 { $wait }后，最迟 { $most }后
cadence_every_hour = 每小时
cadence_hourly = 每小时的第 { $minute } 分钟
cadence_daily = 每天 { $time }
cadence_weekdays = 周一至周五 { $time }
cadence_days = { $days } { $time }
days_range = { $first }至{ $last }
cadence_weekly = { $day ->
    [mon] 每周一
    [tue] 每周二
    [wed] 每周三
    [thu] 每周四
    [fri] 每周五
    [sat] 每周六
   *[sun] 每周日
} { $time }
cadence_monthly = { $day ->
    [31] 每月最后一天
   *[other] 每月 { $day } 日
} { $time }
cadence_cron = 按自定义时间表
cadence_never = 从不

# 时间
when = { $day } { $time }（{ $zone }）
today = 今天，{ $date }
tomorrow = 明天，{ $date }

# 时长
seconds = { $count } 秒
minutes = { $count } 分钟
hours = { $count } 小时
days = { $count } 天

# 其他页面
unavailable = 目前无法使用
unavailable_text = 请在一分钟后重试。
gone = 此邮件已不再保留
gone_text = 邮件只能在有限的时间内在浏览器中阅读。邮件本身不受影响。
not_found = 此链接无效
not_found_text = 可能只复制了其中一部分。请从邮件中打开，或复制完整链接。

# 通过邮件中的链接退订
unsubscribe = 退订
unsubscribe_question = 要退订吗？
unsubscribe_digest = { $address ->
    [unknown] 您将不再收到“{ $digest }”邮件。
   *[other] { $address } 将不再收到“{ $digest }”邮件。
}
unsubscribe_bulk = { $address ->
    [unknown] 您将不再收到新闻简报和其他群发邮件。
   *[other] { $address } 将不再收到新闻简报和其他群发邮件。
}
unsubscribed = 您已退订
unsubscribed_digest = { $address ->
    [unknown] 将不再发送“{ $digest }”邮件。
   *[other] 将不再向 { $address } 发送“{ $digest }”邮件。
}
unsubscribed_bulk = { $address ->
    [unknown] 将不再发送新闻简报和其他群发邮件。
   *[other] 将不再向 { $address } 发送新闻简报和其他群发邮件。
}
former_name = 不再以此名称发送邮件。如果您仍收到邮件，请通过最近一封邮件中的链接退订。
