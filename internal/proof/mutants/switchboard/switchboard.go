// Package switchboard is what rewritten code asks at each point of mutation: which of them is on, in this process, is in its
// environment. It also notes which points were reached.
package switchboard

import (
	"cmp"
	"os"
	"strconv"
	"time"
)

// Environment variables of a process that has mutations in it.
const (
	Env        = "QRTZ_MUTANT"         // the number of the mutation that is on; none if it is empty or 0
	ReachedEnv = "QRTZ_MUTANT_REACHED" // a file of one byte for each point: it becomes 1 when the point is reached
)

var (
	active, _ = strconv.Atoi(os.Getenv(Env))
	reached   = board(os.Getenv(ReachedEnv))
)

func on(id int) bool {
	mark(id)
	return id == active
}

// mark notes that a point was reached. Several goroutines write the same byte, always the same value.
func mark(id int) {
	if id < len(reached) {
		reached[id] = 1
	}
}

// Keep tells whether to carry out a statement.
func Keep(id int) bool { return !on(id) }

// Not negates a condition.
func Not(id int, c bool) bool { return c != on(id) }

// And is a && b, and with the mutation a || b.
func And(id int, a bool, b func() bool) bool {
	if on(id) {
		return a || b()
	}
	return a && b()
}

// Or is a || b, and with the mutation a && b.
func Or(id int, a bool, b func() bool) bool {
	if on(id) {
		return a && b()
	}
	return a || b()
}

// Less is a < b, and with the mutation a <= b.
func Less[T cmp.Ordered](id int, a, b T) bool {
	if on(id) {
		return a <= b
	}
	return a < b
}

// LessEqual is a <= b, and with the mutation a < b.
func LessEqual[T cmp.Ordered](id int, a, b T) bool {
	if on(id) {
		return a < b
	}
	return a <= b
}

// Greater is a > b, and with the mutation a >= b.
func Greater[T cmp.Ordered](id int, a, b T) bool { return Less(id, b, a) }

// GreaterEqual is a >= b, and with the mutation a > b.
func GreaterEqual[T cmp.Ordered](id int, a, b T) bool { return LessEqual(id, b, a) }

// Before is a.Before(b), and with the mutation !a.After(b).
func Before(id int, a, b time.Time) bool {
	if on(id) {
		return !a.After(b)
	}
	return a.Before(b)
}

// After is a.After(b), and with the mutation !a.Before(b).
func After(id int, a, b time.Time) bool { return Before(id, b, a) }

// Integer is any type of whole numbers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// More is n, and with the mutation n + 1.
func More[T Integer](id int, n T) T {
	if on(id) {
		return n + 1
	}
	return n
}

// Fewer is n, and with the mutation n - 1.
func Fewer[T Integer](id int, n T) T {
	if on(id) {
		return n - 1
	}
	return n
}

// Lasting is d, and with one of two mutations twice as long, or no time at all.
func Lasting(twice, none int, d time.Duration) time.Duration {
	if on(twice) {
		return 2 * d
	}
	if on(none) {
		return 0
	}
	return d
}

// Text is s, or the text of the mutation that is on. The mutations are pairs of a number and a text. It is for texts that are made
// when the process starts: what was reached says Used.
func Text(s string, mutations ...any) string {
	for i := 0; i < len(mutations); i += 2 {
		if mutations[i].(int) == active {
			return mutations[i+1].(string)
		}
	}
	return s
}

// TextHere is Text where it is used at once.
func TextHere(s string, mutations ...any) string {
	for i := 0; i < len(mutations); i += 2 {
		mark(mutations[i].(int))
	}
	return Text(s, mutations...)
}

// Used is s, a text that Text has made. The number is that of all its points together.
func Used(id int, s string) string {
	mark(id)
	return s
}
