// Package cron reads the cron expressions of Quartz 2.3.2 and says when they fire.
//
// An expression has six or seven fields, seconds first:
//
//	seconds minutes hours day-of-month month day-of-week [year]
//
// with `* , - /` in every field, `? L W` in day-of-month, `? L #` in day-of-week, names of months
// and days in any case, and ranges that wrap around (22-2, FRI-MON). Day 1 of the week is Sunday.
// One of the two day fields must be `?`. Malformed input is refused with a [ParseError]; Quartz's
// own leniencies (a step after a name, `MONDAY`, words after the year, `*/0`) count as malformed.
//
// # Daylight saving
//
// Every schedule belongs to a time zone, and there are two rules for days on which its clock jumps:
//
//   - By default no day is lost and no hour is silent. A schedule whose hours field allows every
//     hour follows real time: it fires at each instant whose wall clock matches. Any other schedule
//     fires, for each wall time it names, at the first instant at which the clock shows that time or
//     a later one: at the first instant after a gap, and only in the first pass of an overlap.
//   - [QuartzDST] gives the answers of Quartz itself, gaps, silences and all.
//
// # Bounds
//
// Nothing fires before [FirstYear] or after [LastYear], so every search ends.
//
// The package is pure: it reads no clock, and imports nothing but the standard library.
package cron
