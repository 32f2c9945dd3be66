package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile are texts that do something to a terminal, and how they are shown.
var hostile = []struct{ text, want string }{
	{"\x1b[2J\x1b[1;31mred", `\x1b[2J\x1b[1;31mred`},
	{"\u009b31mred", `\u009b31mred`},                   // CSI in one character
	{"\x9b31mred", `\x9b31mred`},                       // and in one byte, which is no UTF-8
	{"\x1b]0;title\x07", `\x1b]0;title\a`},             // OSC, BEL
	{"gone\rover it", `gone\rover it`},                 // the line is written over
	{"back\b\b\x7f", `back\b\b\x7f`},                   //
	{"safe\u202etxt.exe", `safe\u202etxt.exe`},         // bidi override
	{"a\u2066b\u2069c\u200f", `a\u2066b\u2069c\u200f`}, // bidi isolates and mark
	{"ze\u200bro\ufeff", `ze\u200bro\ufeff`},           // hidden
	{"line\u2028break", `line\u2028break`},             //
	{"plain, naïve 日本 🚀 \\x1b", `plain, naïve 日本 🚀 \x1b`},
	{"\ufffd", "\ufffd"}, // a replacement character that is one
}

func TestNothingStoredActsOnTheTerminal(t *testing.T) {
	for _, h := range hostile {
		assert.Equal(t, h.want, visible(h.text), "%q", h.text)
		assert.Equal(t, h.want, cell(h.text), "%q", h.text)
		assert.Equal(t, h.want, cell(&h.text), "%q", h.text)

		var out bytes.Buffer
		require.NoError(t, printList(&out, false, []string{h.text}, "NAME", func(s string) []any { return []any{s} }))
		assert.Equal(t, "NAME\n"+h.want+"\n", out.String())
		out.Reset()
		require.NoError(t, printFacts(&out, fact{"name", h.text}))
		assert.Equal(t, "name  "+h.want+"\n", out.String())
	}
	assert.Equal(t, "two\nlines\twide", visible("two\nlines\twide"), "of a message")
	assert.Equal(t, "two lines wide", cell("two\nlines\twide"), "of a table")
	assert.Equal(t, "-", cell(""))
}
