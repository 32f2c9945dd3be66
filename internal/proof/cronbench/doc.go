// Package cronbench puts the project's cron package beside other Go libraries. It is a module of its
// own so that they stay out of the project's go.mod. Run it with
//
//	go test -bench .
//
// Each library gets the same expression, zone and time, by its own best way of asking. A library that
// refuses an expression, or does not answer within a second, is skipped; one that answers otherwise
// than we do is marked with `1 differs`: it has another rule for clock changes, or gives up early.
package cronbench
