"""What `magnetar doctor` checks: one module for each subject."""
