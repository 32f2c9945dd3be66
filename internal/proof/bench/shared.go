package bench

import "time"

// What internal/proof/peers measures with, too, so that its figures are those of this package.

// Machine is what is measured on: processor, memory, file system and so on.
func Machine() map[string]string { return machine() }

// ProcessorTime is what a process has used; 0 where there is no /proc.
func ProcessorTime(pid int) time.Duration { return processorTime(pid) }

// Figure shows a number with about three digits that mean something, thousands apart.
func Figure(v float64) string { return figure(v) }
