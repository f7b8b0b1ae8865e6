"""The commands that publish, receive and measure: `magnetar produce`, `consume`, `read`, `perf`."""
