package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/text"
)

func TestClip(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "abc": "abc", "abcdef": "abcde", "abcdü": "abcd", "abcd\U0001F600": "abcd", "ab\xff": "ab\uFFFD", "a\x00b": "a\x00b",
		"\xff\xff\xff": "\uFFFD", "abc\xe2\x82": "abc", "abcd\xc3\xbcx": "abcd",
	} {
		require.Equal(t, want, text.Clip(s, 5), "%q", s)
	}
	for n := range 20 {
		for _, s := range []string{strings.Repeat("\U0001F600", 9), strings.Repeat("\xff", 30), strings.Repeat("ü\x00", 9)} {
			clipped := text.Clip(s, n)
			require.LessOrEqual(t, len(clipped), n)
			require.True(t, utf8.ValidString(clipped), "%q to %d", s, n)
		}
	}
}

func TestLine(t *testing.T) {
	require.Equal(t, "one", text.Line("one\ntwo", 100))
	require.Equal(t, "on", text.Line("one\ntwo", 2))
}

func TestASCII(t *testing.T) {
	require.Equal(t, "no ?, ? left", text.ASCII("no ü, \U0001F600 left"))
}

func TestClipKeepsWholeCharacters(t *testing.T) {
	for in, want := range map[string]string{"": "", "abcdef": "abcde", "abcd": "abcd", "abcdü": "abcd", "abcü": "abcü", "\xff": "\uFFFD", "ab\xffd": "ab\uFFFD", "🐘🐘": "🐘"} {
		require.Equal(t, want, text.Clip(in, 5), in)
	}
}

func TestList(t *testing.T) {
	type kind string
	require.Equal(t, "CRON, SIMPLE", text.List([]kind{"CRON", "SIMPLE"}))
}

func TestName(t *testing.T) {
	for _, good := range []string{"", "a", "a b", "Größe 😀"} {
		require.NoError(t, text.Name(good))
	}
	for bad, want := range map[string]string{
		" ": `" " begins or ends with a blank`, "a ": "with a blank", "\ta": "with a blank", "a\xff": `"a\xff" is not UTF-8`, "a\x00b": "control", "a\nb": "control",
	} {
		require.ErrorContains(t, text.Name(bad), want)
	}
}
