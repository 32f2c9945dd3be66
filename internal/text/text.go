// Package text bounds and cleans what comes from outside (handlers, tables, servers) before it is kept or logged. It also
// lists names for messages.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip shortens s to at most n bytes of whole, valid UTF-8, as a column takes it. What it returns does not keep a
// longer s in memory.
func Clip(s string, n int) string {
	shortened := len(s) > n
	if shortened {
		s = s[:n] // before all else: s may be huge
		s = s[:len(s)-partial(s)]
	}
	clean := strings.ToValidUTF8(s, "\uFFFD")
	if len(clean) > n { // a replacement is longer than what it replaces
		clean = clean[:n]
		clean = clean[:len(clean)-partial(clean)]
	}
	if shortened {
		return strings.Clone(clean)
	}
	return clean
}

// partial is how many bytes at the end of s begin a character whose rest has been cut off.
func partial(s string) int {
	for back := 1; back <= min(3, len(s)); back++ {
		switch c := s[len(s)-back]; {
		case c < 0x80:
			return 0
		case c >= 0xC0: // the first byte of a character of 2, 3 or 4
			want := 2
			if c >= 0xF0 {
				want = 4
			} else if c >= 0xE0 {
				want = 3
			}
			if want > back {
				return back
			}
			return 0
		}
	}
	return 0
}

// Line is the first line of s, at most n bytes of it, for a log.
func Line(s string, n int) string {
	line, _, _ := strings.Cut(Clip(s, n), "\n")
	return line
}

// ASCII is s with a question mark for every character that is not in ASCII: any character set can store that.
func ASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 0x80 {
			return '?'
		}
		return c
	}, s)
}

// List is the members of a set of states, rules or kinds, for a message.
func List[S ~string](all []S) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// Name says what is wrong with a name that a program gives: the server would not store it, or not tell it from another.
func Name(s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8", s)
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%q begins or ends with a blank", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q has a control character", s)
	}
	return nil
}
