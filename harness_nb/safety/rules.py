"""Rules about tool calls, written as one line of text and matched strictly to allow, generously to deny. Book chapter 14.

    answer  subject  [pattern]

    allow   shell    git status          exactly this command
    allow   shell    git diff *          this command, with any further words
    deny    shell    rm                  every command that starts, or may start, `rm`
    ask     write    prices/**           tools that write, on these paths
    allow   http_get url=https://api.example.com/**

The answer is `allow`, `ask` or `deny`. The subject is a tool's name, in which `*` stands for anything, or
effects: `read`, `write`, `network`, `mutate`, `spend` joined by commas, or `undeclared`. Without a pattern the
rule is about every call of them. A pattern is for the command of a tool that has an argument `command`,
else for the paths it names, else for its only argument; `name=glob` names the argument. In a glob `*` stands
for anything but `/`, and `**` for anything.

Their order does not matter: whatever denies wins over what asks, and that over what allows.
"""
