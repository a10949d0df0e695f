mod children;
mod handlers;
mod leases;
mod losses;
mod steps;
