package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// visible is a text for a terminal, line by line as it is. What could move the cursor, ring, colour, turn the direction of
// writing or hide is shown as Go writes it: \x1b, \a, \u202e. Whatever comes from a table or a server goes through it.
func visible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && badAt(text, i):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || strconv.IsGraphic(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// badAt tells whether the byte at i begins no rune.
func badAt(text string, i int) bool {
	_, size := utf8.DecodeRuneInString(text[i:])
	return size == 1
}

// oneLine is visible in one line, its parts a blank apart.
func oneLine(text string) string {
	return visible(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' }), " "))
}

// printJSON writes a value as JSON, in which what visible would show is escaped, too: \u202e.
func printJSON(out io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range text.String() {
		if r == '\n' || strconv.IsGraphic(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
