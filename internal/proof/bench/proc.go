package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tickTime is the unit of times in /proc: USER_HZ, which is 100 on every system that has it.
const tickTime = time.Second / 100

// processorTime is what a process has used; 0 where there is no /proc.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStat(string(stat))
}

// parseStat adds user and system time in the text of /proc/PID/stat. The name of the program may hold anything.
func parseStat(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tickTime
}

// residentMB is a figure of memory in /proc/self/status: VmRSS, or VmHWM for the most there was.
func residentMB(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	kB, _ := strconv.ParseFloat(strings.Fields(lineOf(string(status), field+":") + " 0")[0], 64)
	return kB / 1024
}

// lineOf is what follows a key in the first line that begins with it.
func lineOf(text, key string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.Trim(rest, " \t:\n")
		}
	}
	return ""
}

// machine is what the measurements were made on.
func machine() map[string]string {
	facts := map[string]string{
		"go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH, "cores": strconv.Itoa(runtime.NumCPU()),
	}
	read := func(name, path string, find func(string) string) {
		if text, err := os.ReadFile(path); err == nil {
			facts[name] = find(string(text))
		}
	}
	read("processor", "/proc/cpuinfo", func(text string) string { return lineOf(text, "model name") })
	read("memory", "/proc/meminfo", func(text string) string {
		kB, _ := strconv.Atoi(strings.Fields(lineOf(text, "MemTotal") + " 0")[0])
		return fmt.Sprintf("%.0f GB", float64(kB)/(1<<20))
	})
	read("kernel", "/proc/sys/kernel/osrelease", strings.TrimSpace)
	read("file system", "/proc/mounts", func(text string) string { return mountOf(text, os.TempDir()) })
	return facts
}

// mountOf is the type of the file system that holds a path, given /proc/mounts.
func mountOf(mounts, path string) string {
	best, kind := "", ""
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		point := strings.TrimSuffix(f[1], "/") + "/"
		if strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", point) && len(point) >= len(best) {
			best, kind = point, f[2]
		}
	}
	return kind
}
