// Package cronbench puts the project's cron package beside other Go libraries. It is a module of its
// own so that they stay out of the project's go.mod. Run it with
//
//	go test -bench .
//
// Each library gets the same expression, zone and time, by its own best way of asking. A library that
// refuses an expression, or does not answer within a second, is skipped; one whose answer differs
// from ours (which is Quartz's) is marked with `1 wrong`.
package cronbench
