package qrtz

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/run"
)

// What handlers fail with comes from outside: it may be of any size, and saying it may itself panic.

const (
	maxReason = 1 << 10 // bytes of a failure's first line in the log
	maxPanic  = 2 << 10 // bytes of a panic's value in its message, so that the stack has room behind it
)

// panicked is the message of a run whose handler panicked with p: what it said, and its stack.
func panicked(p any) string {
	return text.Clip(fmt.Sprintf("panic: %s\n\n%s", text.Clip(valueOf(p), maxPanic), debug.Stack()), run.MaxMessage)
}

// valueOf is what a value says of itself. Of one that could be of any size and has no words for itself it is the type.
func valueOf(p any) string {
	switch v := p.(type) {
	case string:
		return v
	case error, fmt.Stringer:
		return fmt.Sprint(v) // which survives a method that panics
	}
	switch kind := reflect.ValueOf(p).Kind(); kind {
	case reflect.Array, reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.Struct:
		return fmt.Sprintf("a value of type %T", p)
	}
	return fmt.Sprint(p)
}

// said is the message of an error that a handler returned.
func said(err error) string { return text.Clip(fmt.Sprint(err), run.MaxMessage) }

// asError is errors.As for errors of handlers, whose methods may panic.
func asError[T error](err error) (found T, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	ok = errors.As(err, &found)
	return found, ok
}
