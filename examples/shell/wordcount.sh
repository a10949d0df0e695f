#!/bin/sh
# A worker in shell: counts the words of a text. Any program that reads its input and writes its result is one.
#
#   weft worker --exec examples/shell/wordcount.sh --kind wordcount
#   printf 'one two three' | weft submit wordcount --input - --type text/plain --wait
#
# The input is on standard input and the result on standard output. Exit codes: 0 is done, 65 fails for good, 75 and every
# other fail and are retried. Lines of JSON on the pipe $WEFT_CONTROL tell how far the work is.
set -eu

text=$(cat)
if [ -z "$text" ]; then
    echo "there is no text to count" >&2
    exit 65
fi

echo '{"progress": {"percent": 50, "message": "counting"}}' > "$WEFT_CONTROL"
words=$(printf '%s' "$text" | wc -w)
printf '{"words": %d}\n' "$words"
